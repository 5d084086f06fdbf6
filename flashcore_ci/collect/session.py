"""Describe one collection, and how its workers are started."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import host, nvml
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobResult, JobSpec, Wrap
from flashcore_ci.model.codes import Code
from flashcore_ci.model.coverage import foreign_entries
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation, Provenance
from flashcore_ci.model.identity import FILE, digest_of, workload_identity
from flashcore_ci.model.jit import CACHE_VARIABLES, KEEPING
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Kind, Workload

CLOCKS_FREE = "not locked; SM clock read in the stream"
CLOCKS_LOCKED = "locked at {mhz} MHz; SM clock read in the stream"
DEFAULT_SECONDS = 120.0
PROBE_SECONDS = 60.0
CLEAN_EXIT = frozenset({0})
MESSAGE_JOBS = frozenset({"launch", "messages"})
"""Jobs that read or write the messages of a group."""
GROUP_JOBS = MESSAGE_JOBS | {"correctness", "timing"}
FORKED_JOBS = frozenset({"correctness", "probe"})
"""Jobs on one GPU that need no program of their own. A timing process has one, so that it shares no state with another."""
MANY = 8
"""Sanitizers that run at once, about. A kind of job whose processes run one after another keeps all cores of its GPU."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the collectors of one run share. Times in seconds, ``lock_clocks`` in MHz, the GPU's ``memory`` in bytes.

    ``root`` is the checkout, ``libraries`` its built libraries, ``python`` an interpreter with torch. ``allow`` are globs of
    processes that may share the GPU. ``run_folder`` receives ``artifacts``, ``scratch`` jobs and logs.
    ``users`` are the processes on the GPU before the first of this run, by the driver's numbers.
    ``may_start`` returns when work that is not urgent may begin. ``versions``, ``origin`` and ``notes`` wait for what git and the tools say.
    ``group`` are the UUIDs of the GPUs that run one workload together, empty for one GPU. Only ``neighbours`` may join it (None: any).
    ``shards``: how many parts of the plan are measured, perhaps on this machine.
    """

    plan: Plan
    builds: tuple[BuildEvidence, ...]
    uuid: str
    root: Path
    python: Path
    libraries: Path
    run_folder: Path
    scratch: Path
    lock_dir: Path
    origin: Callable[[], Provenance]
    sanitizer: Path | None
    ncu: Path | None
    versions: Callable[[], tuple[tuple[str, str], ...]] = tuple
    lock_timeout: float = 1800.0
    lock_clocks: int | None = None
    memory: int = 0
    nvdisasm: Path | None = None
    artifacts: str = "artifacts"
    allow: tuple[str, ...] = ()
    users: frozenset[int] = frozenset()
    group: tuple[str, ...] = ()
    neighbours: tuple[str, ...] | None = None
    notes: Callable[[], tuple[str, ...]] = tuple
    shards: int = 1
    progress: Callable[[str], None] = print
    may_start: Callable[[], object] = bool

    @property
    def clock_policy(self) -> str:
        """What sets the SM clock."""
        return CLOCKS_FREE if self.lock_clocks is None else CLOCKS_LOCKED.format(mhz=self.lock_clocks)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The UUIDs of the GPUs of each workload."""
        return self.group or (self.uuid,)

    @property
    def messages(self) -> Path:
        """The folder of recorded messages between GPUs."""
        return self.scratch / f"messages-{len(self.gpus)}"

    def artifact(self, kind: str, name: str) -> Path:
        """Return the path of an artifact."""
        path = self.run_folder / self.artifacts / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def relative(self, path: Path) -> str:
        """Return an artifact's path inside the run folder."""
        return path.relative_to(self.run_folder).as_posix()

    def workloads(self, kind: Kind) -> tuple[Workload, ...]:
        """Return the planned workloads that were built, for this number of GPUs."""
        planned = (workload for workload in self.plan.workloads_for(kind) if workload.gpus == len(self.gpus))
        return tuple(workload for workload in planned if self.identity(kind, workload) is not None)

    def build(self, subject: str) -> BuildEvidence | None:
        """Return the build of this subject, if any."""
        return next((build for build in self.builds if build.subject == subject), None)

    def identity(self, kind: Kind, workload: Workload) -> Identity | None:
        """Return the identity of a measurement, or None without a build."""
        build = self.build(workload.subject)
        return None if build is None else workload_identity(kind, workload, self.problem(workload), build, self.plan.protocol)

    def problem(self, workload: Workload) -> Problem:
        """Return the size of a workload."""
        return self.plan.description(workload.subject).problem(workload.id)

    def entries(self, workload: Workload) -> tuple[str, ...]:
        """Return the entry functions that the workload launches."""
        return self.problem(workload).entries

    def foreign(self, workload: Workload) -> dict[str, str]:
        """Return the entry functions of other subjects, each with its subject."""
        return foreign_entries(self.plan.manifest, workload.subject, self.entries(workload))

    def difference_limits(self, workloads: tuple[Workload, ...]) -> dict[str, float]:
        """Return the limits of the difference from PyTorch, by workload."""
        checks = [check for check in self.plan.checks if check.gate.metric == "diff/max"]
        return {check.target: check.limit.value for check in checks if any(check.target == each.id for each in workloads)}

    def python_files(self, workloads: tuple[Workload, ...]) -> list[str] | None:
        """Return the Python files under digests, or None."""
        described = [self.plan.description(name) for name in dict.fromkeys(workload.subject for workload in workloads)]
        files = [file for d in described if d.build is not None for file in (d.file, *d.build.binding)]
        for name in (description.subject for description in described if description.build is None):
            build = self.build(name)
            if build is None or not build.dependencies:
                return None
            files += [file.removeprefix(FILE) for file, _ in build.dependencies if file.startswith(FILE)]
        return files

    def seconds(self, kind: Kind) -> float:
        """Return the time limit of one process."""
        return dict(self.plan.protocol.timeouts).get(kind, DEFAULT_SECONDS)

    def observation(self, kind: Kind, workload: Workload, **learned: Any) -> Observation:
        """Return an observation of this workload with its identity."""
        identity = self.identity(kind, workload)
        if identity is None:
            raise ValueError(f"{workload.id} was not built and cannot have been measured")
        return Observation(kind=kind, target=workload.id, identity=identity, **learned)

    def require_sanitizer(self) -> Path:
        """Return compute-sanitizer, or raise CannotCollectError."""
        if self.sanitizer is None:
            raise CannotCollectError("compute-sanitizer was not found", fix="flashcore-ci toolchain install")
        return self.sanitizer

    def require_ncu(self) -> Path:
        """Return ncu, or raise CannotCollectError."""
        if self.ncu is None:
            raise CannotCollectError("ncu (Nsight Compute) was not found", fix="install Nsight Compute, which is not on PyPI")
        return self.ncu

    def job(
        self,
        kind: str,
        name: str,
        workloads: tuple[Workload, ...],
        *,
        seconds: float,
        options: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        permitted: frozenset[int] = CLEAN_EXIT,
        wrap: Wrap | None = None,
    ) -> JobSpec:
        """Return a worker's job on this GPU."""
        caches, private = self._caches(kind, workloads)
        together, devices = self._together(kind, seconds)
        has_candidates = any(self.plan.description(workload.subject).candidate for workload in workloads)
        return JobSpec(
            kind=kind,
            name=name,
            python=self.python,
            root=self.root,
            scratch=self.scratch,
            seconds=seconds,
            subjects=tuple(self._subject(name) for name in dict.fromkeys(workload.subject for workload in workloads)),
            workloads=workloads,
            options={
                "turns": str(self.lock_dir),
                "cores": max(1, host.cpus() // max(1, host.gpus()) // (MANY if kind == "launch" else 1)),
                **(options or {}),
                "python": self.python_files(workloads),
                "exact": self._is_exact(workloads),
                "caches": caches,
                "libraries": {build.subject: self._library(build) for build in self.builds if build.library},
                **together,
            },
            variables={**devices, **private, **(variables or {})},
            permitted=permitted,
            wrap=wrap,
            imported=kind in FORKED_JOBS and not (together or caches or variables or wrap or has_candidates),
        )

    def _together(self, kind: str, seconds: float) -> tuple[dict[str, Any], dict[str, str]]:
        """Return what a job of several GPUs is told. NVLink multicast stays off, and no message leaves this machine."""
        if len(self.gpus) == 1 or kind not in GROUP_JOBS:
            return {}, {"CUDA_VISIBLE_DEVICES": self.uuid}
        options = {"gpus": len(self.gpus), "uuids": self.gpus, "rank_seconds": seconds / 2}
        local = dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), "lo")
        if kind in MESSAGE_JOBS:
            options["messages"] = str(self.messages)
        return options, {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus), "NCCL_NVLS_ENABLE": "0", **local}

    def _caches(self, kind: str, workloads: tuple[Workload, ...]) -> tuple[str, dict[str, str]]:
        """Return a folder for what frameworks compile, and the variables that name it.

        Each side has its own. What was tuned next to other processes is not timed. Machine code is of one process.
        """
        described = (self.plan.description(workload.subject) for workload in workloads)
        if all(one.build is not None or one.candidate for one in described):
            return "", {}
        group = {"timing": "timed", "machine_code": f"process-{next(_numbers)}"}.get(kind, "shared")
        folder = self.scratch / "compiled" / digest_of(str(self.root))[:12] / group
        return str(folder), {
            **(KEEPING if kind == "machine_code" else {}),
            **{name: str(folder / name.lower()) for name in CACHE_VARIABLES},
        }

    def _is_exact(self, workloads: tuple[Workload, ...]) -> bool:
        """Tell whether all subjects are under digests of bytes, so that they may read their own sources."""
        return all(self.plan.description(workload.subject).build is None for workload in workloads)

    def _library(self, build: BuildEvidence) -> str:
        return str((self.libraries / build.library).resolve())

    def _subject(self, name: str) -> dict[str, Any]:
        build = self.build(name)
        library = self._library(build) if build is not None and build.library else None
        description = self.plan.description(name)
        return {"name": name, "file": str(self.root / description.file), "library": library, "candidate": description.candidate}

    def probe(self) -> JobResult:
        """Run a known-good kernel."""
        return child.run(self.job("probe", "probe", (), seconds=PROBE_SECONDS))

    def is_healthy(self) -> bool:
        """Return whether a known-good kernel gives the known answer, on every GPU."""
        return all(probe_failure(replace(self, uuid=uuid).probe()) is None for uuid in self.gpus)

    def check_exclusive(self, contexts: int = 0) -> Missing | None:
        """Return why these GPUs cannot be timed now (busy, or the driver fails), or None. ``contexts`` of this tool wait on them."""
        try:
            states = [nvml.read(uuid) for uuid in self.gpus]
        except CannotCollectError as error:  # the GPU answered when the run began, so earlier measurements stay valid
            return Missing(code=Code.DEVICE_UNHEALTHY, message=str(error))
        divided = next((why for state in states if (why := nvml.divided_by(state))), "")
        users = [user for state in states for user in state.users]
        others = nvml.other_users(users, self.allow)
        if divided or not others:
            return Missing(code=Code.GPU_BUSY, message=f"{divided} divides this GPU") if divided else None
        new = [user for user in users if user.pid not in self.users]
        if contexts and nvml.are_numbered_elsewhere(users, new):
            more = (
                f"{len(new)} processes came to this GPU, and only {contexts} are of this run (the driver numbers them elsewhere)"
            )
            return Missing(code=Code.GPU_BUSY, message=more) if len(new) > contexts else None
        named = ", ".join(f"{user.name} (process {user.pid})" for user in others)
        return Missing(code=Code.GPU_BUSY, message=f"also on this GPU: {named}")


def probe_failure(result: JobResult) -> Missing | None:
    """Return what is wrong with the GPU. CannotCollectError if it was not reached."""
    failure = result.failure
    if failure is None:
        return child.missing_from(result.outcomes.get("probe", {}))
    if failure.code is Code.TOOL_FAILED:
        fix = "name an interpreter that has torch in FLASHCORE_CI_PYTHON"
        raise CannotCollectError(f"the worker cannot start: {failure.message}", fix=fix)
    if failure.code is Code.INTERRUPTED:
        return failure
    return Missing(code=Code.DEVICE_UNHEALTHY, message=f"a known-good kernel failed: {failure.message}")

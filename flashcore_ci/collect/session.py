"""What every collector of one run shares: plan, builds, machine, and how its worker is told what to do."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flashcore_ci
from flashcore_ci.adapters import nvml
from flashcore_ci.collect.context import Context
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind, Workload

DEFAULT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """``uuid`` is of the GPU under measurement; ``versions`` are of the tools, by name."""

    context: Context
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    uuid: str
    versions: tuple[tuple[str, str], ...] = ()

    def workloads(self, kind: Kind) -> tuple[Workload, ...]:
        """The workloads that this kind of evidence is wanted for and that can run: all that they launch was built."""
        return tuple(workload for workload in self.plan.workloads_for(kind) if self.identity(kind, workload) is not None)

    def build(self, subject: str) -> BuildEvidence | None:
        """The build of this subject, if there is one."""
        return next((build for build in self.builds if build.subject == subject), None)

    def identity(self, kind: Kind, workload: Workload) -> Identity | None:
        """What a measurement of this kind depends on; None when the workload cannot run for want of a build."""
        build = self.build(workload.subject)
        problem = self.plan.description(workload.subject).problem(workload.id)
        return None if build is None else workload_identity(kind, workload, problem, build, self.plan.protocol)

    def entries(self, workload: Workload) -> tuple[str, ...]:
        """The entry functions that the workload launches."""
        return self.plan.description(workload.subject).problem(workload.id).entries

    def python(self, workloads: tuple[Workload, ...]) -> list[str] | None:
        """The Python files that evidence on these workloads is bound to; None where a subject has no machine code to bind it to."""
        described = [self.plan.description(name) for name in dict.fromkeys(workload.subject for workload in workloads)]
        if any(description.build is None for description in described):
            return None
        return [file for d in described if d.build is not None for file in (d.file, *d.build.binding)]

    def seconds(self, kind: Kind) -> float:
        """How long one process of this kind may take."""
        return dict(self.plan.protocol.timeouts).get(kind, DEFAULT_SECONDS)

    def subjects(self, workloads: tuple[Workload, ...]) -> tuple[dict[str, Any], ...]:
        """The subjects of these workloads as a job names them."""
        named = dict.fromkeys(workload.subject for workload in workloads)
        return tuple(self._subject(name) for name in named)

    def _subject(self, name: str) -> dict[str, Any]:
        build = self.build(name)
        library = None
        if build is not None and build.library:
            library = str((self.context.libraries / build.library).resolve())
        return {"name": name, "file": str(self.context.root / self.plan.description(name).file), "library": library}

    def observation(self, kind: Kind, workload: Workload, **learned: Any) -> Observation:
        """An observation of this workload, stamped with what it depends on."""
        identity = self.identity(kind, workload)
        if identity is None:
            raise ValueError(f"{workload.id} cannot have been measured: it was not built")
        return Observation(kind=kind, target=workload.id, identity=identity, **learned)

    def busy(self) -> Missing | None:
        """Who else uses the GPU, if this machine can name anyone who may not; or that the driver does not answer any more."""
        try:
            users = nvml.read(self.uuid).users
        except CannotCollectError as error:  # it answered when the run began: what was measured before stands
            return Missing(code=Code.DEVICE_UNHEALTHY, message=str(error))
        others = nvml.other_users(users, self.context.allow)
        if not others:
            return None
        named = ", ".join(f"{user.name} (process {user.pid})" for user in others)
        return Missing(code=Code.GPU_BUSY, message=f"also on this GPU: {named}")


def import_folder(scratch: Path) -> Path:
    """A folder that holds this package and nothing else: the worker's interpreter must not see our other packages.

    Several threads may ask for it at once.
    """
    folder = scratch / "import"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "flashcore_ci").symlink_to(Path(flashcore_ci.__file__).resolve().parent, target_is_directory=True)
    return folder

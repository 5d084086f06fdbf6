"""This machine: GPU, tools, folders, and the checkout's commit."""

from __future__ import annotations

import contextlib
import glob
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git, ncu, nvml, process
from flashcore_ci.adapters import host as machine
from flashcore_ci.bounded.values import shorten
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.collect import child
from flashcore_ci.collect.session import Session
from flashcore_ci.model.devices import ARCHITECTURES
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import BuildEvidence, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import ShardFile
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.claim import MARKER

P = ParamSpec("P")
T = TypeVar("T")
CHANGES_SHOWN, MAX_CHANGE = 3, 200

driver_kept = nvml.kept

SHARDS = "shards"
"""The folder of shard files in what the shards of a run share."""


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as name:
        yield Path(name)


@contextlib.contextmanager
def shared_scratch(near: Path) -> Iterator[Path]:
    """Make a temporary folder next to ``near``, which other nodes see too."""
    near.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{near.name}-", dir=near.absolute().parent) as name:
        (Path(name) / SHARDS).mkdir()
        yield Path(name)


@contextlib.contextmanager
def importing(python: Path) -> Iterator[None]:
    """Import torch for workers of ``python`` while this process plans."""
    with scratch_folder() as scratch, child.importing(python, scratch):
        yield


@contextlib.contextmanager
def starting_early(request: Request, *, is_chosen: bool) -> Iterator[bool]:
    """Start the driver's library, which takes a second. Import torch, and yield True, if it is plain that one GPU will measure."""
    is_one = is_chosen or (len(_devices(Path("/"))) == 1 and not nvml.are_hidden()) or nvml.is_one_visible()
    with contextlib.ExitStack() as stack:
        if request.live is not False and has_gpu():
            stack.enter_context(driver_kept())
            stack.enter_context(importing(request.settings.python) if is_one else contextlib.nullcontext())
        yield is_one


def gpus_to_start() -> int:
    """Return how many GPUs the driver shows before NVML has started, or 0 if CUDA_VISIBLE_DEVICES may choose others."""
    return 0 if nvml.are_chosen() else min(len(_devices(Path("/"))), machine.gpus())


def _is_shared(folder: Path) -> bool:
    """Tell whether shards are measured into this folder. Copies of the tool there do not change the checkout."""
    return folder.name.startswith(".") and (folder / SHARDS).is_dir()


def stop(*, kill: bool) -> None:
    """End every child process, and start no more."""
    process.stop_all(kill=kill)


def is_stopping() -> bool:
    """Tell whether ``stop`` was called."""
    return process.stopping()


def has_gpu(root: Path = Path("/")) -> bool:
    """Tell whether the driver shows a GPU. Tools may be missing."""
    return bool(_devices(root)) or any((root / "dev").glob("nvidia[0-9]*"))


def _devices(root: Path) -> list[Path]:
    gpus = root / "proc/driver/nvidia/gpus"
    return list(gpus.iterdir()) if gpus.is_dir() else []


def sees_gpu() -> bool:
    """Tell whether the driver shows a GPU, and CUDA_VISIBLE_DEVICES does not hide all."""
    return has_gpu() and not nvml.are_hidden()


def require_gpu(gpu: str) -> nvml.GpuState:
    """Return the state of a GPU, or raise CannotCollectError. WSL has no device files."""
    try:
        return nvml.read(gpu)
    except CannotCollectError:
        if has_gpu():
            raise
        raise CannotCollectError("this machine has no NVIDIA GPU", fix="flashcore-ci doctor") from None


def is_live(request: Request) -> bool:
    """Tell whether to measure here. A hidden GPU counts if it is named."""
    return (has_gpu() if request.gpu else sees_gpu()) if request.live is None else request.live


def compiler(request: Request, progress: Progress) -> Toolchain:
    """Find the requested CUDA tools, or install the pinned ones."""
    if request.toolchain != tools.SYSTEM:
        version = tools.version_of(request.toolchain)
        return tools.install(request.settings.home, str(request.settings.python), progress, version)
    installed = tools.find_system()
    if installed is None:
        raise CannotCollectError("this machine has no nvcc", fix="omit --toolchain system, then the pinned tools are used")
    return installed


def session(request: Request, progress: Progress, scratch: Path, *, plan: Plan, builds: tuple[BuildEvidence, ...]) -> Session:
    """Tell the collector about run and machine."""
    settings, state = request.settings, require_gpu(request.gpu)
    require_architecture(plan, state)
    checkout, began = meanwhile(_checkout, request, scratch), clock.now()
    sanitizer, nvdisasm = _checkers(request, disassembles=bool(plan.workloads_for(Kind.MACHINE_CODE)))
    return Session(
        plan=plan,
        builds=builds,
        uuid=state.uuid,
        root=request.root,
        python=settings.python,
        libraries=request.binaries,
        run_folder=request.out,
        scratch=scratch,
        lock_dir=settings.lock_dir,
        lock_timeout=request.lock_timeout,
        origin=lambda: _origin(checkout(), began),
        notes=lambda: _note_changes(checkout()),
        sanitizer=sanitizer,
        ncu=ncu.find(),
        nvdisasm=nvdisasm,
        allow=request.allow_process,
        lock_clocks=request.lock_clocks,
        neighbours=None if request.neighbours is None else tuple(filter(None, request.neighbours.split(","))),
        progress=progress,
    )


def require_architecture(plan: Plan, state: nvml.GpuState) -> None:
    """Raise CannotCollectError if this GPU cannot run what the suite builds. Nothing is claimed for other architectures."""
    for description in plan.descriptions:
        for name in description.build.compile.architectures if description.build is not None else ():
            fix = f"measure on such a GPU, or name this one in [ridge] of {plan.suite_file}"
            _require(name, state, what=f"{description.subject} is built for {name}", fix=fix)


def require_gpu_of(shard: ShardFile, state: nvml.GpuState) -> None:
    """Raise CannotCollectError if this GPU cannot run the shard."""
    if name := shard.needs.architecture:
        what = f"shard {shard.index} of {shard.suite_file} needs {name}"
        _require(name, state, what=what, fix="measure it on such a GPU, or choose one with --gpu")


def _require(name: str, state: nvml.GpuState, *, what: str, fix: str) -> None:
    if not ARCHITECTURES[name].runs_on(state.compute_capability):
        raise CannotCollectError(f"{what}, and {state.name} has compute capability {state.compute_capability}", fix=fix)


def meanwhile(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Callable[[], T]:
    """Call it in a thread. Return what waits for its result: git compares every file of the checkout, for up to a second."""
    pool = ThreadPoolExecutor(1)
    result = pool.submit(call, *arguments, **options).result
    pool.shutdown(wait=False)
    return result


def commit_in(asked: Callable[[], Provenance]) -> str:
    """Return the commit, or "" if it could not be told. The gate reports why: to raise it here again would lose the reports."""
    with contextlib.suppress(Exception):
        return asked().commit
    return ""


def provenance(request: Request, scratch: Path | None = None) -> Provenance:
    """Describe the checkout. ``scratch`` keeps git's output (None: dropped)."""
    if scratch is None:
        with scratch_folder() as logs:
            return provenance(request, logs)
    return _origin(_checkout(request, scratch), clock.now())


def _origin(checkout: git.Checkout, collected_at: str) -> Provenance:
    return Provenance(
        collected_at=collected_at,
        device=None,
        tools=(),
        commit=checkout.commit,
        dirty=checkout.dirty,
        clock_policy="",
        version=__version__,
    )


def _checkout(request: Request, scratch: Path) -> git.Checkout:
    if request.commit:
        return git.Checkout(commit=request.commit, dirty=False)
    out = request.root / request.out
    near = (out.parent, *out.parent.glob(f".{glob.escape(out.name)}-*"))  # of this shard and its siblings, or of our shards
    shared = [folder for folder in near if _is_shared(folder)]
    gate = out.parent.parent / (out.parent.name[1:].rpartition("-")[0] or out.parent.name)  # whose shard this is
    gates = [gate] if out.parent in shared and (gate / MARKER).is_file() else []
    outputs = (out, request.root / request.binaries, *shared, *gates)
    return git.checkout(request.root, logs=scratch, outputs=outputs)


def _note_changes(checkout: git.Checkout) -> tuple[str, ...]:
    """Name what makes a checkout differ from its commit. It may be a file that git ignores."""
    if not checkout.changes:
        return ()
    shown = [shorten(change, MAX_CHANGE) for change in checkout.changes[:CHANGES_SHOWN]]
    more = f", and {len(checkout.changes) - len(shown)} more" if len(checkout.changes) > len(shown) else ""
    return (f"the checkout had uncommitted changes: {'; '.join(shown)}{more}",)


def commit_of(request: Request) -> str:
    """Return the commit of the checkout, or "". Its files are not compared with it."""
    if request.commit:
        return request.commit
    with scratch_folder() as logs:
        variables = git.environment(request.environ)
        argv = git.commit_argv(request.root)
        done = process.run(argv, logs=logs, name="git-commit", timeout=git.TIMEOUT_SECONDS, env=variables)
        return git.parse_commit(done.stdout.read_text(encoding="ascii", errors="replace")) if done.returncode == 0 else ""


def _checkers(request: Request, *, disassembles: bool) -> tuple[Path | None, Path | None]:
    """Find compute-sanitizer in the toolchain, else in PATH, and nvdisasm if it is needed. Pinned tools are hashed, once."""
    found: Toolchain | None = None
    if request.toolchain != tools.SYSTEM:
        found = tools.find(request.settings.home, tools.version_of(request.toolchain))
    elsewhere = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    sanitizer = found.sanitizer if found is not None else None
    if disassembles and request.toolchain == tools.SYSTEM:
        found = tools.find_system()
    nvdisasm = found.nvdisasm if disassembles and found is not None else None
    return sanitizer or (Path(elsewhere) if elsewhere else None), nvdisasm

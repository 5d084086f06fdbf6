"""Probe this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import host, ncu, nvml, process, sanitizer
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.compiler import find_host_compiler
from flashcore_ci.doctor import checks
from flashcore_ci.doctor import runner as checklist
from flashcore_ci.doctor.checks import Diagnosis
from flashcore_ci.doctor.runner import RunnerFacts, Status
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.reading import Missing
from flashcore_ci.run import aside
from flashcore_ci.run.host import has_gpu, scratch_folder
from flashcore_ci.run.request import settings_of
from flashcore_ci.suite.settings import Settings

SECONDS = 60.0
ONE_LAUNCH = "import torch; torch.ones(1, device='cuda').add_(1); torch.cuda.synchronize()"
TORCH = (
    "import os, torch; "
    "print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), os.path.exists(torch.__cached__ or torch.__file__))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The text and its items, and whether nothing is missing."""

    text: str
    passed: bool
    items: tuple[dict[str, str], ...] = ()


def examine(environ: Mapping[str, str], *, toolchain: str, allow: tuple[str, ...], gpu: str, runner: bool) -> Examination:
    """Examine this machine. ``runner`` adds the items of docs/runner.md."""
    settings = settings_of(environ)
    with scratch_folder() as scratch:
        diagnoses = tuple(_diagnose(settings, toolchain, allow, gpu, scratch))
        text, passed = checks.render(diagnoses), not any(diagnosis.problem for diagnosis in diagnoses)
        status = {True: "problem", False: "ok"}
        shown = [{"name": d.name, "status": status[d.problem], "fact": d.fact, "fix": d.fix} for d in diagnoses]
        if runner:
            items = checklist.check(_runner_facts(environ, diagnoses, allow, gpu, scratch))
            shown += [{"name": item.id, "status": str(item.status), "fact": item.fact, "fix": item.fix} for item in items]
            text += f"\n{checklist.render(items)}"
            passed = passed and not any(item.status is Status.FAILED for item in items)
    return Examination(text=text, passed=passed, items=tuple(shown))


def _diagnose(settings: Settings, toolchain: str, allow: tuple[str, ...], gpu: str, scratch: Path) -> Iterator[Diagnosis]:
    gpu_is_here, git = has_gpu(), shutil.which("git")
    yield from checks.diagnose_aside(aside.noted(settings.home))
    if gpu_is_here:
        yield from _ask("gpu", lambda: checks.diagnose_gpu(nvml.read(gpu), allow, _cuda_version(settings, toolchain)))
    else:
        yield Diagnosis(name="gpu", fact="no NVIDIA GPU", problem=True, fix="judge recorded runs instead: flashcore-ci gate")
    yield Diagnosis(name="git", fact=git or "not installed", problem=git is None, fix="" if git else "install git")
    yield from _ask("nvcc", lambda: _compiler(settings, toolchain, scratch))
    yield from _ask("g++", lambda: (Diagnosis(name="g++", fact=f"in {find_host_compiler().folder}"),))
    yield from _ask("torch", lambda: (_torch(settings, gpu_is_here, scratch),))
    yield from _ask("ncu", lambda: _profiler(settings, gpu_is_here, scratch))
    yield from _ask("ncu-report", lambda: (Diagnosis(name="ncu-report", fact=str(ncu.import_reader(ncu.find()).__file__)),))
    for name, folder in (("the toolchain and builds", settings.home), ("runs", Path.cwd())):
        yield checks.diagnose_disk(f"{name} in {folder}", shutil.disk_usage(_existing(folder)).free)


def _ask(name: str, ask: Callable[[], tuple[Diagnosis, ...]]) -> tuple[Diagnosis, ...]:
    try:
        return ask()
    except CannotCollectError as error:
        return (Diagnosis(name=name, fact=str(error), problem=True, fix=error.fix),)


def _find_tools(settings: Settings, toolchain: str) -> tools.Toolchain | None:
    return tools.find_system() if toolchain == tools.SYSTEM else tools.find(settings.home, tools.version_of(toolchain))


def _cuda_version(settings: Settings, toolchain: str) -> str:
    """Return the version of the tools, or that of the pins if they are absent or broken. Another line says so."""
    with contextlib.suppress(CannotCollectError):
        if (found := _find_tools(settings, toolchain)) is not None:
            return found.version
    return tools.DEFAULT if toolchain == tools.SYSTEM else tools.version_of(toolchain)


def _compiler(settings: Settings, toolchain: str, scratch: Path) -> tuple[Diagnosis, ...]:
    cuda, install = _find_tools(settings, toolchain), "flashcore-ci toolchain install"
    install += f" {toolchain}" if toolchain in tools.VERSIONS[1:] else ""
    if cuda is None:
        raise CannotCollectError("not installed", fix=install)
    if cuda.sanitizer is None:
        checker = Diagnosis(name="sanitizer", fact="not installed", problem=True, fix=install)
    else:
        printed = process.run(sanitizer.version_argv(cuda.sanitizer), logs=scratch, name="sanitizer", timeout=SECONDS)
        version = sanitizer.parse_version(printed.text())
        old = sanitizer.is_too_old(version)
        fix = f"install {sanitizer.FLOOR_TEXT} or newer: flashcore-ci toolchain install" if old else ""
        checker = Diagnosis(name="sanitizer", fact=f"{version or 'unknown version'} ({cuda.sanitizer})", problem=old, fix=fix)
    return (Diagnosis(name="nvcc", fact=f"{cuda.version} ({cuda.nvcc})"), checker)


def _torch(settings: Settings, gpu_is_here: bool, scratch: Path) -> Diagnosis:
    printed = process.run((settings.python, "-c", TORCH), logs=scratch, name="torch", timeout=SECONDS)
    words = printed.text().split()
    fix = "install torch 2.11 or newer for that interpreter, or name another one in FLASHCORE_CI_PYTHON"
    if printed.returncode != 0 or len(words) != 4:  # noqa: PLR2004 - TORCH prints four words
        return Diagnosis(name="torch", fact=f"not in {settings.python}", problem=True, fix=fix)
    version, cuda, available, compiled = words
    blind = gpu_is_here and available != "True"
    fact = f"{version}, CUDA {cuda}{', but it does not see the GPU' if blind else ''} ({settings.python})"
    if compiled != "True" and not blind:
        fact += ". Without compiled files: every process needs 3 to 6 s more to import it"
        fix = f"{settings.python} -m compileall -q -j 0 $({settings.python} -c 'import site; print(*site.getsitepackages())')"
        return Diagnosis(name="torch", fact=fact, problem=False, fix=fix)
    return Diagnosis(name="torch", fact=fact, problem=blind, fix=fix if blind else "")


def _profiler(settings: Settings, gpu_is_here: bool, scratch: Path) -> tuple[Diagnosis, ...]:
    tool = ncu.find()
    if tool is None:
        raise CannotCollectError("not installed", fix="install Nsight Compute (package cuda-nsight-compute-13-0)")
    printed = process.run(ncu.version_argv(tool), logs=scratch, name="ncu-version", timeout=SECONDS)
    lines = (Diagnosis(name="ncu", fact=f"{ncu.parse_version(printed.text()) or 'unknown version'} ({tool})"),)
    if not gpu_is_here:
        return lines
    count_cycles = (tool, "--metrics", "sm__cycles_elapsed.max", "--launch-count", "1", "--clock-control", "none")
    counted = process.run((*count_cycles, settings.python, "-c", ONE_LAUNCH), logs=scratch, name="ncu", timeout=SECONDS)
    error = ncu.find_error(counted.text() + counted.error_text())
    if error is None and counted.returncode != 0:
        how = f"did not end within {SECONDS:.0f} s" if counted.timed_out else f"ended with status {counted.returncode}"
        error = Missing(code=Code.TOOL_FAILED, message=f"ncu {how} on one launch")
    return (*lines, checks.diagnose_counters(error))


def _runner_facts(
    environ: Mapping[str, str], diagnoses: tuple[Diagnosis, ...], allow: tuple[str, ...], gpu: str, scratch: Path
) -> RunnerFacts:
    settings = settings_of(environ)
    state = None
    with contextlib.suppress(CannotCollectError):
        state = nvml.read(gpu)
    counters = [not diagnosis.problem for diagnosis in diagnoses if diagnosis.name == "counters"]
    return RunnerFacts(
        host=host.inspect(environ, temporary=Path(tempfile.gettempdir()), scratch=scratch),
        state=state,
        counters_work=counters[0] if counters else None,
        passwordless_sudo=_becomes_root(scratch),
        allow=allow,
        lock=str(settings.lock_dir),
        lock_is_writable=os.access(settings.lock_dir, os.W_OK),
        lock_is_named=bool(environ.get("FLASHCORE_CI_LOCK_DIR")),
        free=shutil.disk_usage(_existing(settings.home)).free,
    )


def _becomes_root(scratch: Path) -> bool:
    """Tell whether sudo needs no password. It only runs ``true``."""
    try:
        return process.run(("sudo", "-n", "true"), logs=scratch, name="sudo", timeout=SECONDS).returncode == 0
    except CannotCollectError:
        return False


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.resolve().parents) if path.exists())

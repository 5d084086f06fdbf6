"""``flashcore-ci doctor``: can this machine gate? Each thing that is needed in one line, with the fix where it is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from flashcore_ci.adapters import host, ncu, nvml, process, sanitizer
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.compiler import find_host_compiler
from flashcore_ci.cli import options
from flashcore_ci.doctor import checks
from flashcore_ci.doctor import runner as checklist
from flashcore_ci.doctor.checks import Line
from flashcore_ci.doctor.runner import Facts, Standing
from flashcore_ci.model.errors import CannotCollectError, ExitCode
from flashcore_ci.run import gpu as machine
from flashcore_ci.suite.settings import Settings

SECONDS = 120.0
ONE_LAUNCH = "import torch; torch.ones(1, device='cuda').add_(1); torch.cuda.synchronize()"
TORCH = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"


@click.command("doctor")
@options.toolchain
@options.allow_process
@options.gpu
@click.option("--runner", is_flag=True, help="Check, too, whether a self-hosted runner is set up safely (docs/runner.md).")
def command(*, toolchain: str, allow_process: tuple[str, ...], gpu: str, runner: bool) -> int:
    """Can this machine gate? What is missing, and what fixes it. Exit code 4 when something is.

    With --runner, and in a job of that runner: each item of docs/runner.md, verified, failed, or not to be seen from here.
    """
    settings = Settings.from_environment(os.environ)
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch:
        lines = tuple(_examine(settings, toolchain, allow_process, gpu, Path(scratch)))
        items = checklist.examine(_facts(settings, lines, allow_process, gpu, Path(scratch))) if runner else ()
    click.echo(checks.render(lines), nl=False)
    if runner:
        click.echo(f"\n{checklist.render(items)}", nl=False)
    bad = any(line.problem for line in lines) or any(item.standing is Standing.FAILED for item in items)
    return ExitCode.CANNOT_COLLECT if bad else ExitCode.PASSED


def _examine(settings: Settings, toolchain: str, allow: tuple[str, ...], gpu: str, scratch: Path) -> Iterator[Line]:
    has_gpu = machine.has_gpu()
    if has_gpu:
        yield from _asked("gpu", lambda: checks.gpu(nvml.read(gpu), allow))
    else:
        yield Line(name="gpu", found="no NVIDIA GPU", problem=True, fix="recorded runs can still be judged: flashcore-ci gate")
    yield from _asked("nvcc", lambda: _compiler(settings, toolchain, scratch))
    yield from _asked("g++", lambda: (Line(name="g++", found=f"in {find_host_compiler().folder}"),))
    yield from _asked("torch", lambda: (_torch(settings, has_gpu, scratch),))
    yield from _asked("ncu", lambda: _profiler(settings, has_gpu, scratch))
    yield from _asked("ncu-report", lambda: (Line(name="ncu-report", found=str(ncu.import_reader(ncu.find()).__file__)),))
    for name, folder in (("the toolchain and builds", settings.home), ("runs", Path.cwd())):
        yield checks.disk(f"{name} in {folder}", shutil.disk_usage(_existing(folder)).free)


def _asked(name: str, ask: Callable[[], tuple[Line, ...]]) -> tuple[Line, ...]:
    """The answer, or the error as a problem with its fix."""
    try:
        return ask()
    except CannotCollectError as error:
        return (Line(name=name, found=str(error), problem=True, fix=error.fix),)


def _compiler(settings: Settings, toolchain: str, scratch: Path) -> tuple[Line, ...]:
    found = tools.find(settings.home) if toolchain == "pip" else tools.find_system()
    if found is None:
        raise CannotCollectError("not installed", fix="flashcore-ci toolchain install")
    if found.sanitizer is None:
        checker = Line(name="sanitizer", found="not installed", problem=True, fix="flashcore-ci toolchain install")
    else:
        asked = process.run(sanitizer.version_argv(found.sanitizer), logs=scratch, name="sanitizer", timeout=SECONDS)
        version = sanitizer.parse_version(asked.text())
        old = sanitizer.is_too_old(version)
        fix = f"{sanitizer.FLOOR_TEXT} or newer is needed: flashcore-ci toolchain install" if old else ""
        checker = Line(name="sanitizer", found=f"{version or 'unknown version'} ({found.sanitizer})", problem=old, fix=fix)
    return (Line(name="nvcc", found=f"{found.version} ({found.nvcc})"), checker)


def _torch(settings: Settings, has_gpu: bool, scratch: Path) -> Line:
    asked = process.run((settings.python, "-c", TORCH), logs=scratch, name="torch", timeout=SECONDS)
    words = asked.text().split()
    fix = "install torch 2.11 or newer there, or name another interpreter in FLASHCORE_CI_PYTHON"
    if asked.returncode != 0 or len(words) != 3:  # noqa: PLR2004 - the three things that were asked
        return Line(name="torch", found=f"not in {settings.python}", problem=True, fix=fix)
    version, cuda, available = words
    blind = has_gpu and available != "True"
    found = f"{version}, CUDA {cuda}{', but it does not see the GPU' if blind else ''} ({settings.python})"
    return Line(name="torch", found=found, problem=blind, fix=fix if blind else "")


def _profiler(settings: Settings, has_gpu: bool, scratch: Path) -> tuple[Line, ...]:
    tool = ncu.find()
    if tool is None:
        raise CannotCollectError("not installed", fix="install Nsight Compute (package cuda-nsight-compute-13-0)")
    asked = process.run(ncu.version_argv(tool), logs=scratch, name="ncu-version", timeout=SECONDS)
    lines = (Line(name="ncu", found=f"{ncu.parse_version(asked.text()) or 'unknown version'} ({tool})"),)
    if not has_gpu:
        return lines
    counted = (tool, "--metrics", "sm__cycles_elapsed.max", "--launch-count", "1", "--clock-control", "none")
    tried = process.run((*counted, settings.python, "-c", ONE_LAUNCH), logs=scratch, name="ncu", timeout=SECONDS)
    return (*lines, checks.counters(ncu.find_error(tried.text() + tried.error_text())))


def _facts(settings: Settings, lines: tuple[Line, ...], allow: tuple[str, ...], gpu: str, scratch: Path) -> Facts:
    """What the checklist is about; whether ncu can count was tried above, if it could be."""
    state = None
    with contextlib.suppress(CannotCollectError):
        state = nvml.read(gpu)
    tried = [not line.problem for line in lines if line.name == "counters"]
    return Facts(
        host=host.inspect(os.environ, temporary=Path(tempfile.gettempdir()), scratch=scratch),
        state=state,
        counted=tried[0] if tried else None,
        sudo=_becomes_root(scratch),
        allow=allow,
        lock=str(settings.lock_dir),
        lock_is_writable=os.access(settings.lock_dir, os.W_OK),
        locks_shared=bool(os.environ.get("FLASHCORE_CI_LOCK_DIR")),
        free=shutil.disk_usage(_existing(settings.home)).free,
    )


def _becomes_root(scratch: Path) -> bool:
    """Whether sudo asks for nothing. Nothing is done with it."""
    try:
        return process.run(("sudo", "-n", "true"), logs=scratch, name="sudo", timeout=SECONDS).returncode == 0
    except CannotCollectError:
        return False


def _existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    return next(path for path in (folder, *folder.resolve().parents) if path.exists())

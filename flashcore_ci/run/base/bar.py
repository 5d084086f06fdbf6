"""Let the base's own tool compare the bar. Head's tool could say that nothing changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import flashcore_ci
from flashcore_ci import __version__
from flashcore_ci.adapters import git, git_export, process
from flashcore_ci.judge.bar import accepted_by
from flashcore_ci.model.bar import Acceptance, BarDifference
from flashcore_ci.model.errors import CannotCollectError, EvidenceError
from flashcore_ci.model.verdict import Origin
from flashcore_ci.run.bar import unknown
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.codec import decode
from flashcore_ci.suite.acceptances import read_acceptances

SECONDS = 300.0
MAX_BYTES = 16 << 20
PACKAGE = Path("flashcore_ci/cli/main.py")
COMMAND = Path("flashcore_ci/cli/bar.py")
SITE = "site-packages"
SUBMODULES = "Files in git submodules are not compared: keep suite, subjects and kernels in this repository"
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "FLASHCORE_CI_HOME", "FLASHCORE_CI_PYTHON")
"""All that the child knows of the environment. Head's subjects run below it, so no token is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBar:
    """The difference, head's new acceptances, which tool compared, and what the headline must say about that."""

    difference: BarDifference
    acceptances: tuple[Acceptance, ...]
    origin: Origin
    caveat: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether a reviewed file accepts exactly this difference."""
        return accepted_by(self.difference, self.acceptances) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The folder to import the tool from, its name, and what the headline must say about it."""

    folder: Path
    name: str
    caveat: str = ""


def compare_bar(commit: str, request: Request, progress: Progress, *, scratch: Path) -> ComparedBar:
    """Compare the suite of ``commit`` with this checkout's. Files of ``commit`` come from git, never from a cache."""
    progress(f"comparing the suite with that of {git.short(commit)}")
    base = scratch / "base"
    git_export.export(request.repository, commit, into=base, logs=scratch)
    tool = tool_of(base, request.root)
    acceptances = new_acceptances(base, request.root, request.suite)  # before head's subjects run, which could change files
    difference = _ask(tool, base, request, scratch)
    if difference.problem and (base / ".gitmodules").is_file():
        difference = replace(difference, problem=f"{difference.problem}. {SUBMODULES}")
    origin = Origin(kind="live", detail=f"the suites of {git.short(commit)} and head, by {tool.name}")
    return ComparedBar(difference=difference, acceptances=acceptances, origin=origin, caveat=tool.caveat)


def tool_of(base: Path, root: Path) -> Tool:
    """Choose the base's tool if the base has one, else the installed release that runs now."""
    running = Path(flashcore_ci.__file__).resolve().parents[1]
    if (base / COMMAND).is_file():
        return Tool(folder=base, name="the base's flashcore-ci")
    if (base / PACKAGE).is_file():
        caveat = "head's own tool compared the suites, because the base's has no command `bar`"
        return Tool(folder=running, name="head's flashcore-ci", caveat=caveat)
    if running.is_relative_to(root.resolve()):
        caveat = "head's own tool compared the suites, because the base has no tool"
        return Tool(folder=running, name="head's flashcore-ci", caveat=caveat)
    return Tool(folder=running, name=f"flashcore-ci {__version__}")


def environment(environ: Mapping[str, str], tool: Tool, libraries: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of the tool's process, which imports other packages from ``libraries``."""
    kept = {name: value for name, value in environ.items() if name in KEPT_VARIABLES}
    path = os.pathsep.join((str(tool.folder), *libraries))
    return {**kept, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def libraries_of(path: Sequence[str], root: Path) -> tuple[str, ...]:
    """Keep the folders of installed packages. Head's own folders could shadow one."""
    folders = [folder for folder in path if Path(folder).is_absolute()]
    return tuple(f for f in folders if SITE in Path(f).parts or not Path(f).resolve().is_relative_to(root.resolve()))


def new_acceptances(base: Path, head: Path, suite: Path) -> tuple[Acceptance, ...]:
    """Read head's acceptances that the base does not have. One that was merged is spent, also under another file name."""
    spent = {(old.base, old.difference, old.why) for old in read_acceptances(base / suite)}
    return tuple(new for new in read_acceptances(head / suite) if (new.base, new.difference, new.why) not in spent)


def _ask(tool: Tool, base: Path, request: Request, scratch: Path) -> BarDifference:
    trees = ("--base-tree", str(base), "--head-tree", str(request.root.resolve()))
    argv = (sys.executable, "-P", "-m", "flashcore_ci.cli.main", "bar", *trees, "--suite", str(request.suite))
    env = environment(request.environ, tool, libraries_of(sys.path, request.root))
    try:
        done = process.run(argv, logs=scratch, name="bar", timeout=SECONDS, cwd=scratch, env=env)
    except CannotCollectError as error:
        return unknown(f"{tool.name} cannot start: {error}")
    if done.timed_out or done.returncode != 0:
        lines = done.error_text(limit=MAX_BYTES).splitlines()
        how = "did not end in time" if done.timed_out else f"ended with {done.signal_name or done.returncode}"
        return unknown(f"{tool.name} {how}: {lines[0] if lines else 'without a message'}")
    try:
        return decode(BarDifference, done.text(limit=MAX_BYTES).encode(), where="the comparison of the suites")
    except EvidenceError as error:
        return unknown(f"{tool.name} gave no comparison: {error}")

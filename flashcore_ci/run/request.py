"""The options of a command in one record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.suite import Kind
from flashcore_ci.suite.settings import Settings

LIBRARIES = "build"
settings_of = Settings.from_environment
Progress = Callable[[str], None]
"""Called with one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of ``gate``. Other commands use some of them.

    - ``live``: measure here (None: if there is a GPU). ``kinds``: judge only these kinds of evidence (none: all).
    - ``build``, ``base_build``: binaries from elsewhere. ``libraries``: the folder to build into (None: in the run folder).
    - ``changed``: judge only checks that can differ from this revision. ``base``: the commit to compare with.
    - ``checkout``: the files to judge (None: the working directory), of ``commit`` where git cannot tell.
    - ``gates_of``: a suite whose gates and limits judge in place of those of ``suite``.
    - ``shard``: a shard file, whose part alone ``collect`` measures. ``given``: plan and checked builds, from the gate that runs it.
    - ``suite_is_default``: the suite is from pyproject.toml, so that of the base rules where there is one.
    - ``anchor``: also time the pinned anchor. ``base_python``, ``base_toolchain``, ``anchor_python``: of another side, if not head's.
    - ``untriaged_days``: how old an untriaged alert may be (None: alerts are not judged). ``db``: the history that saw them end.
    - ``neighbours``: UUIDs, with commas, of other GPUs for workloads of several (None: any). ``lock_timeout``: seconds. ``lock_clocks``: MHz.
    """

    suite: Path
    out: Path
    environ: Mapping[str, str]
    only: tuple[str, ...] = ()
    evidence: Path = Path("gates/evidence")
    build: Path | None = None
    libraries: Path | None = None
    stale: str = "block"
    as_of: str | None = None
    live: bool | None = None
    toolchain: str = "pip"
    allow_process: tuple[str, ...] = ()
    jobs: int | None = None
    gpu: str = ""
    neighbours: str | None = None
    lock_timeout: float = 1800.0
    changed: str | None = None
    base: str | None = None
    base_build: Path | None = None
    kinds: tuple[Kind, ...] = ()
    checkout: Path | None = None
    commit: str | None = None
    lock_clocks: int | None = None
    gates_of: Path | None = None
    shard: Path | None = None
    given: Path | None = None
    suite_is_default: bool = False
    anchor: bool = False
    anchor_python: Path | None = None
    base_python: Path | None = None
    base_toolchain: str | None = None
    untriaged_days: int | None = None
    db: str | None = None

    @property
    def root(self) -> Path:
        """The checkout. Paths in the suite are relative to it."""
        return self.checkout or Path.cwd()

    @property
    def repository(self) -> Path:
        """The folder whose git history is used."""
        return Path.cwd()

    @property
    def settings(self) -> Settings:
        """The folders and the interpreter of this machine."""
        return settings_of(self.environ)

    def of_side(self, *, python: Path | None, toolchain: str | None) -> Request:
        """Return the request of a side that is built and run by other tools. UsageError if there is no such interpreter."""
        if python is not None and not python.is_file():
            raise UsageError(f"{python} is not an interpreter", fix="give the path of its python3")
        environ = self.environ if python is None else {**self.environ, "FLASHCORE_CI_PYTHON": str(python.absolute())}
        return replace(self, environ=environ, toolchain=toolchain or self.toolchain)

    @property
    def binaries(self) -> Path:
        """The folder of the binaries."""
        return self.build or self.libraries or self.out / LIBRARIES

    @property
    def compilers(self) -> int:
        """Compilers that run at a time."""
        return self.jobs or os.cpu_count() or 1

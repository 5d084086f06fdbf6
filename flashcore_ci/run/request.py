"""What the command line asked for, in one record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.model.suite import Kind
from flashcore_ci.suite.settings import Settings

LIBRARIES = "build"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of ``gate``; other commands use some of them.

    ``live`` is None when the machine decides; ``build`` names a folder of binaries made elsewhere,
    ``libraries`` the one to write to (None: inside the run folder); ``lock_timeout`` is in seconds. With ``changed``
    (a commit or branch) only what can differ from it is asked. ``base`` is the commit to compare with, ``base_build`` its
    binaries made elsewhere. ``kinds`` narrows the suite to gates on these kinds of evidence (none: all). ``commit`` says which
    one ``checkout`` (None: the working directory) was taken from, where git cannot tell. ``lock_clocks`` is in MHz.
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
    gpu: str = "0"
    lock_timeout: float = 1800.0
    changed: str | None = None
    base: str | None = None
    base_build: Path | None = None
    kinds: tuple[Kind, ...] = ()
    checkout: Path | None = None
    commit: str | None = None
    lock_clocks: int | None = None

    @property
    def root(self) -> Path:
        """The checkout: paths in the suite are relative to it."""
        return self.checkout or Path.cwd()

    @property
    def repository(self) -> Path:
        """Where git knows the history."""
        return Path.cwd()

    @property
    def settings(self) -> Settings:
        """Where things live on this machine."""
        return Settings.from_environment(self.environ)

    @property
    def binaries(self) -> Path:
        """The folder that the binaries are in, or will be written to."""
        return self.build or self.libraries or self.out / LIBRARIES

    @property
    def compilers(self) -> int:
        """How many compilers run at a time."""
        return self.jobs or os.cpu_count() or 1

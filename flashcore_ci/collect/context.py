"""What a collection needs to know about this machine and this run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.model.evidence import Provenance

Progress = Callable[[str], None]

CLOCKS_FREE = "not locked; SM clock read in the stream"
CLOCKS_LOCKED = "locked at {mhz} MHz; SM clock read in the stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where things are and who asked.

    ``root`` is the checkout; ``python`` the interpreter that has torch; ``libraries`` the folder that the build wrote to;
    ``run`` the run folder (artifacts go there); ``scratch`` a folder for jobs and logs that are no part of the run;
    ``lock_dir`` holds the GPU's lock, ``lock_timeout`` is in seconds; ``sanitizer`` and ``ncu`` are the tools (None: not
    found); ``gpu`` is an index or a UUID as NVML knows it; ``allow`` are names (globs) of processes that may share the GPU.
    ``lock_clocks`` is the SM clock in MHz that is held while measuring (None: the GPU decides).
    ``origin`` carries commit, dirty, version and time; collecting adds device, tools and clock policy.
    """

    root: Path
    python: Path
    libraries: Path
    run: Path
    scratch: Path
    lock_dir: Path
    origin: Provenance
    sanitizer: Path | None
    ncu: Path | None
    lock_timeout: float = 1800.0
    gpu: str = "0"
    allow: tuple[str, ...] = ()
    progress: Progress = print
    lock_clocks: int | None = None

    @property
    def clock_policy(self) -> str:
        """Who decides on the SM clock, in words."""
        return CLOCKS_FREE if self.lock_clocks is None else CLOCKS_LOCKED.format(mhz=self.lock_clocks)

    def artifact(self, kind: str, name: str) -> Path:
        """A path for a file of the run; ``relative`` gives the name that observations carry."""
        return self.run / "artifacts" / kind / name

    def relative(self, path: Path) -> str:
        """The path inside the run folder, with slashes."""
        return path.relative_to(self.run).as_posix()

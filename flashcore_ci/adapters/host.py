"""What a job can see of its machine, without a change to it. What cannot be seen becomes None, never a guess."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import loads

SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE_?KEY|API_?KEY|ACCESS_?KEY|(^|_)PAT$", re.IGNORECASE)
CREDENTIALS = (
    ".ssh/id_*", ".aws/credentials", ".azure/*token*", ".config/gcloud/*credentials*", ".config/gh/hosts.yml",
    ".docker/config.json", ".git-credentials", ".kube/config", ".netrc", ".pypirc", ".cache/huggingface/token",
)  # fmt: skip
SOCKETS = ("var/run/docker.sock", "run/containerd/containerd.sock", "run/podman/podman.sock")
CAP_SYS_ADMIN = 21
INIT_NAMES = frozenset({"systemd", "init"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """A machine as a job sees it. ``capabilities`` is the mask of effective ones. ``ephemeral``: None without a GitHub runner.

    ``in_container``: other processes may be invisible. ``has_cleanup_hook``: the runner cleans up after each job.
    """

    gpus: int
    root: bool
    capabilities: int | None
    in_container: bool
    profiling_is_restricted: bool | None
    processes: tuple[str, ...]
    secrets: tuple[str, ...]
    credentials: tuple[str, ...]
    sockets: tuple[str, ...]
    ephemeral: bool | None
    has_cleanup_hook: bool
    leftovers: tuple[str, ...]

    @property
    def is_admin(self) -> bool:
        """Whether this job has CAP_SYS_ADMIN: nearly all that root may do."""
        return self.capabilities is not None and bool(self.capabilities >> CAP_SYS_ADMIN & 1)


def inspect(environ: Mapping[str, str], *, root: Path = Path("/"), temporary: Path, scratch: Path) -> HostInfo:
    """Inspect the machine whose files begin at ``root``. The tool's own ``scratch`` is not a leftover."""
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    names = (read_text(folder / "comm").strip() for folder in (root / "proc").glob("[0-9]*"))
    return HostInfo(
        gpus=gpus(root),
        root=os.geteuid() == 0,
        capabilities=_capabilities(root / "proc/self/status"),
        in_container=read_text(root / "proc/1/comm").strip() not in INIT_NAMES,
        profiling_is_restricted=_restricted(root / "proc/driver/nvidia/params"),
        processes=tuple(sorted(name for name in names if name)),
        secrets=tuple(sorted(name for name, value in environ.items() if value and SECRET_NAME.search(name))),
        credentials=tuple(_readable(home, CREDENTIALS)) if home else (),
        sockets=tuple(f"/{name}" for name in SOCKETS if os.access(root / name, os.W_OK)),
        ephemeral=_ephemeral(environ),
        has_cleanup_hook=bool(environ.get("ACTIONS_RUNNER_HOOK_JOB_COMPLETED")),
        leftovers=tuple(str(path) for path in sorted(temporary.glob("flashcore-ci-*")) if path.is_dir() and path != scratch),
    )


def _capabilities(status: Path) -> int | None:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", read_text(status), re.MULTILINE)
    return int(found[1], 16) if found else None


def _restricted(parameters: Path) -> bool | None:
    """Read what NVreg_RestrictProfilingToAdminUsers set."""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)$", read_text(parameters), re.MULTILINE)
    return bool(int(found[1])) if found else None


def cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(root: Path = Path("/")) -> int:
    """Return how many GPUs have a device file."""
    return sum(path.name.removeprefix("nvidia").isdecimal() for path in (root / "dev").glob("nvidia*"))


def _readable(home: Path, globs: tuple[str, ...]) -> Iterator[str]:
    for glob in globs:
        yield from (f"~/{path.relative_to(home)}" for path in sorted(home.glob(glob)) if os.access(path, os.R_OK))


def _ephemeral(environ: Mapping[str, str]) -> bool | None:
    """The settings are two folders above the job's temporary folder."""
    temporary = environ.get("RUNNER_TEMP")
    if not temporary:
        return None
    for folder in Path(temporary).parents[:3]:
        if text := read_text(folder / ".runner"):
            try:
                return loads(text.removeprefix("\ufeff")).get("ephemeral") is True
            except (ValueError, AttributeError):
                return None
    return None


def read_text(path: Path) -> str:
    """Read a small file. One that cannot be read is empty."""
    try:
        return files.read_start(path, limit=files.MIB).decode("utf-8", errors="replace")
    except OSError:
        return ""

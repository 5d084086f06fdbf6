"""What kind of machine this is."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.adapters import nvml
from flashcore_ci.model.errors import CannotCollectError


def has_gpu(root: Path = Path("/")) -> bool:
    """Whether the NVIDIA driver shows a GPU here. Tools may still be missing: that is an error, not another kind of machine."""
    listed = root / "proc/driver/nvidia/gpus"
    return (listed.is_dir() and any(listed.iterdir())) or any((root / "dev").glob("nvidia[0-9]*"))


def require_gpu(gpu: str) -> None:
    """CannotCollectError unless the driver answers for this GPU. Its word counts: WSL, for one, shows no device files."""
    try:
        nvml.read(gpu)
    except CannotCollectError:
        if has_gpu():
            raise
        raise CannotCollectError("this machine has no NVIDIA GPU", fix="flashcore-ci doctor, or use --recorded") from None

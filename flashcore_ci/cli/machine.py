"""What kind of machine this is, without asking any tool."""

from __future__ import annotations

from pathlib import Path


def has_gpu(root: Path = Path("/")) -> bool:
    """Whether the NVIDIA driver shows a GPU here. Tools may still be missing: that is an error, not another kind of machine."""
    listed = root / "proc/driver/nvidia/gpus"
    return (listed.is_dir() and any(listed.iterdir())) or any((root / "dev").glob("nvidia[0-9]*"))

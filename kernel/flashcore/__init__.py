"""FlashCore: attention kernels for Hopper GPUs behind a C ABI.

Importing this package imports neither torch nor a CUDA library; both are touched on the first call.
"""

from __future__ import annotations

from typing import Any

from flashcore._library import LibraryError, load

__all__ = ["LibraryError", "attention", "load", "stream_axpy"]


def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Forward attention on torch tensors; see ``flashcore._attention.attention`` for every option."""
    from flashcore._attention import attention as forward

    return forward(q, k, v, **options)


def stream_axpy(a: float, x: Any, y: Any, **options: Any) -> Any:
    """``a * x + y`` on float32 torch tensors; see ``flashcore._stream.stream_axpy``."""
    from flashcore._stream import stream_axpy as axpy

    return axpy(a, x, y, **options)

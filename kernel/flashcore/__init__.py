"""FlashCore: attention kernels for Hopper GPUs behind a C ABI.

The ``flash_attn_*`` functions have FlashAttention-3's signatures. A bad argument is a ValueError that names it. A missing library or a
failed launch is a LibraryError. The first use of a function imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from flashcore._library import LibraryError, load

if TYPE_CHECKING:
    from flashcore._attention import attention
    from flashcore._blocks import quantise_e4m3
    from flashcore._combine import flash_attn_combine
    from flashcore._decode import decode
    from flashcore._decode_varlen import decode_varlen
    from flashcore._e4m3 import attention_e4m3, transpose_values
    from flashcore._e4m3_varlen import attention_e4m3_varlen
    from flashcore._flash import flash_attn_func, flash_attn_varlen_func
    from flashcore._kvcache import flash_attn_with_kvcache
    from flashcore._stream import stream_axpy
    from flashcore._varlen import attention_varlen

__all__ = [
    "LibraryError",
    "attention",
    "attention_e4m3",
    "attention_e4m3_varlen",
    "attention_varlen",
    "decode",
    "decode_varlen",
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "load",
    "quantise_e4m3",
    "stream_axpy",
    "transpose_values",
]

_MODULES = {
    "attention": "_attention",
    "attention_e4m3": "_e4m3",
    "attention_e4m3_varlen": "_e4m3_varlen",
    "attention_varlen": "_varlen",
    "decode": "_decode",
    "decode_varlen": "_decode_varlen",
    "flash_attn_combine": "_combine",
    "flash_attn_func": "_flash",
    "flash_attn_varlen_func": "_flash",
    "flash_attn_with_kvcache": "_kvcache",
    "quantise_e4m3": "_blocks",
    "stream_axpy": "_stream",
    "transpose_values": "_e4m3",
}


def __getattr__(name: str) -> Any:
    """Import a function on its first use, and keep it in this module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = function
    return function

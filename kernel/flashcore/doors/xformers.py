"""The door to xformers: ``register()`` before anything of xformers is imported. ``unregister()`` closes it.

xformers calls the operator ``flash_attn_3::fwd``, but only if it also finds FlashAttention-3's compiled module. Here that module is an empty one,
which exists while xformers looks.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

MODULE, COMPILED = "xformers.ops.fmha.flash3", "flash_attn_3._C"


def register() -> None:
    """Open the door. A second call leaves it open."""
    import flashcore.fa3  # noqa: F401 - defines the operator

    if MODULE not in sys.modules:
        empty = ModuleType(COMPILED)
        empty.__spec__ = importlib.machinery.ModuleSpec(COMPILED, None)
        sys.modules[COMPILED] = empty
        try:
            importlib.import_module(MODULE)
        finally:
            del sys.modules[COMPILED]
    if _get_module("flash3")._C_flashattention3 is None:  # noqa: SLF001 - as below
        raise ImportError("xformers was imported before this door was open. Call register() first, in a new process", name=MODULE)
    _get_module("dispatch")._set_use_fa3(True)  # noqa: SLF001 - xformers has no public switch


def unregister() -> None:
    """Close the door: xformers chooses among its other kernels again."""
    if MODULE in sys.modules:
        _get_module("dispatch")._set_use_fa3(False)  # noqa: SLF001 - as above


def _get_module(name: str) -> Any:
    return importlib.import_module(f"xformers.ops.fmha.{name}")

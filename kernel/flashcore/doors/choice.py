"""Choose what computes a call: the Hopper kernels, the Triton kernel, or the framework itself.

Each choice is logged once, with the first reason. ``FLASHCORE_STRICT=1`` raises the reason instead of choosing anything but the Hopper kernels.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import Callable
from typing import Any

import torch

LOG = logging.getLogger("flashcore")
HOPPER = (9, 0)
SERVED: dict[str, tuple[str, str]] = {
    "attention": ("flashcore._attention", "attention"),
    "attention_e4m3": ("flashcore._e4m3", "attention_e4m3"),
    "attention_varlen": ("flashcore._varlen", "attention_varlen"),
    "flash_attn_func": ("flashcore._flash", "flash_attn_func"),
    "flash_attn_varlen_func": ("flashcore._flash", "flash_attn_varlen_func"),
    "flash_attn_with_kvcache": ("flashcore._kvcache", "flash_attn_with_kvcache"),
}
"""The functions that have two kernels, and where the first one is."""

_logged: set[tuple[str, str, str]] = set()


class RefusalError(NotImplementedError):
    """No kernel of FlashCore serves the call. The text says what the Hopper kernels refused."""


def is_strict() -> bool:
    """Return whether other kernels than those for Hopper are forbidden."""
    return os.environ.get("FLASHCORE_STRICT", "") not in {"", "0"}


def log_once(door: str, chosen: str, reason: str = "") -> None:
    """Log that this door uses this kernel. A reason is a warning, and only the first of its kind is logged."""
    key = (door, chosen, reason.partition(":")[0])
    if key in _logged or torch.compiler.is_compiling():
        return
    _logged.add(key)
    if reason:
        LOG.warning("%s: %s, because FlashCore refused: %s", door, chosen, reason)
    else:
        LOG.info("%s: %s", door, chosen)


def serve(name: str, *arguments: Any, door: str = "", **options: Any) -> Any:
    """Call a function of FlashCore on the kernel that serves the arguments. RefusalError if none does."""
    function = find_hopper(name)
    if torch.compiler.is_compiling():  # the operators in a graph have no second kernel
        return function(*arguments, **options)
    door = door or name
    try:
        result = function(*arguments, **options) if is_supported(arguments[0].device) else None
        reason = "" if result is not None else f"q: is on {describe_device(arguments[0].device)}, not on a Hopper GPU"
    except (ValueError, RuntimeError) as error:
        if isinstance(error, (torch.OutOfMemoryError, torch.AcceleratorError)):
            raise
        reason = str(error)
    if not reason:
        log_once(door, "the Hopper kernels")
        return result
    if is_strict():
        raise RefusalError(f"{reason} (FLASHCORE_STRICT is set, so there is no other kernel)")
    try:
        result = _call_triton(name, arguments, options)
    except RefusalError as error:
        raise RefusalError(f"{reason}. The Triton kernel refused: {error}") from error
    if result is None:
        raise RefusalError(reason)
    log_once(door, "the Triton kernel", reason)
    return result


def attempt(door: str, function: Callable[[], Any], otherwise: Callable[[], Any], chosen: str) -> Any:
    """Return the result of ``function``. After a RefusalError log it once, and return that of ``otherwise``."""
    try:
        return function()
    except RefusalError as error:
        if is_strict():
            raise
        log_once(door, chosen, str(error))
    return otherwise()


def find_hopper(name: str) -> Callable[..., Any]:
    """Import a function of the Hopper kernels."""
    module, attribute = SERVED[name]
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def is_supported(device: torch.device) -> bool:
    """Return whether the Hopper kernels run on the device."""
    return device.type == "cuda" and _get_capability(device.index or 0) == HOPPER


def describe_device(device: torch.device) -> str:
    """Return the device's name, for CUDA with its compute capability."""
    return f"{device} (sm_{''.join(map(str, _get_capability(device.index or 0)))})" if device.type == "cuda" else str(device)


@functools.cache
def _get_capability(index: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(index)


def _call_triton(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the Triton kernel's result, or None without Triton. RefusalError if it does not serve the arguments."""
    try:
        from flashcore.doors import fallback
    except ImportError:  # Triton is not installed
        return None
    return fallback.call(name, arguments, options)

"""The door to Transformers: ``register()``, then ``attn_implementation="flashcore"``.

``flashcore_fa3`` is the same. Transformers gives block tables in continuous batching only to a name with "flash" and a 2 or 3.
``unregister()`` closes the door.

A mask is not made. ``make_mask`` describes padding and the part of a cache that is in use by a small int32 tensor of four dimensions,
so that Transformers hands it on unchanged. Its first dimension says what it is:

- 0: the second dimension is how many keys are in use.
- 1: the number of keys in use, for each sequence.
- 2: the same, then the keys before the first that counts.
- 3: several sequences in one row, which the position ids tell apart.

A mask that this does not describe is made as for SDPA, and SDPA computes it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from flashcore.doors import functions
from flashcore.doors.choice import RefusalError, is_strict, log_once
from flashcore.doors.layers import attend

NAMES = ("flashcore", "flashcore_fa3")
DOOR = "Transformers"
CUT, LENGTHS, PADDING, PACKED = range(4)
MASK_RANK = 4
_CAUSAL, _BOTH, _PACKED = (
    "causal_mask_function",
    "bidirectional_mask_function",
    "packed_sequence_mask_function.<locals>.inner_mask",
)
_WINDOWS = {"sliding_window_overlay.<locals>.inner_mask", "sliding_window_bidirectional_overlay.<locals>.inner_mask"}
_DESCRIBED = {_CAUSAL, _BOTH, *_WINDOWS}

_previous: list[Callable[..., Any]] = []


def register() -> None:
    """Open the door. A second call leaves it open."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers import modeling_flash_attention_utils as utils
    from transformers.integrations.flash_paged import paged_attention_forward

    for name in NAMES:
        AttentionInterface.register(name, attention_forward)
        AttentionInterface.register(f"paged|{name}", paged_attention_forward)
        AttentionMaskInterface.register(name, make_mask)
    if not _previous:  # a name with "flash" must be a package or a kernel of the hub, unless this function knows it
        _previous.append(utils._lazy_imports)  # noqa: SLF001 - there is no public door
        utils._lazy_imports = functools.partial(_import_functions, utils)  # noqa: SLF001 - as above


def unregister() -> None:
    """Close the door, if it is open."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers import modeling_flash_attention_utils as utils

    for name in NAMES:
        for interface, key in ((AttentionInterface, name), (AttentionInterface, f"paged|{name}"), (AttentionMaskInterface, name)):
            interface._global_mapping.pop(key, None)  # noqa: SLF001 - the interface cannot forget
    if _previous:
        utils._lazy_imports = _previous.pop()  # noqa: SLF001 - as above
        utils._loaded_implementation = None  # noqa: SLF001 - as above


def _import_functions(utils: Any, implementation: str | None, *arguments: Any, **options: Any) -> Any:
    if implementation is None or implementation.removeprefix("paged|") not in NAMES:
        return _previous[0](implementation, *arguments, **options)
    ours = (functions.flash_attn_func, functions.flash_attn_varlen_func, functions.flash_attn_with_kvcache)
    return *ours, utils._pad_input, utils._unpad_input  # noqa: SLF001 - what every other package gets


def make_mask(
    batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0, mask_function: Any = None,
    attention_mask: torch.Tensor | None = None, **options: Any,
) -> torch.Tensor | None:  # fmt: skip
    """Describe the mask, or make it where that cannot be. None: every key counts, causally aligned bottom right."""
    from transformers.masking_utils import causal_mask_function, sdpa_mask
    from transformers.utils.import_utils import is_tracing

    mask_function = causal_mask_function if mask_function is None else mask_function
    parts, device = _list_parts(mask_function), options.get("device", "cpu")
    whole = functools.partial(
        sdpa_mask, batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
        mask_function=mask_function, attention_mask=attention_mask,
        **{**options, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
    )  # fmt: skip
    if options.get("use_vmap") or not parts <= _DESCRIBED:
        if parts <= {*_DESCRIBED, _PACKED} and attention_mask is None:
            return torch.empty(PACKED, 0, 1, 1, dtype=torch.int32, device=device)
        return whole()
    causal = _CAUSAL in parts
    end, sizes = q_offset + q_length - kv_offset if causal else kv_length, (batch_size, q_length, kv_length)
    if attention_mask is None:
        return _describe(end, None, sizes, device)
    if is_tracing(attention_mask):  # holes in it cannot be seen in a graph
        return whole()
    valid = attention_mask[:, kv_offset : kv_offset + kv_length]
    blocks = (valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0]
    has_all, has_holes, is_late = torch.stack((valid.all(), (blocks > 1).any(), (~valid[:, 0]).any())).tolist()
    first = valid.int().argmax(1)
    if causal:  # padding on the right comes after every row that counts
        first = first if is_late else None
    else:
        end, first = (end, None) if has_all else (first + valid.sum(1), first)
    return whole() if has_holes else _describe(end, first, sizes, device)


def _describe(end: Any, first: torch.Tensor | None, sizes: tuple[int, int, int], device: Any) -> torch.Tensor | None:
    """Describe keys ``first`` to ``end``, of which each may be one number for all sequences."""
    batch, q_length, kv_length = sizes
    if first is None and isinstance(end, int):
        if end == kv_length:
            return None
        if q_length > 1:  # the number changes with every step, and a shape that changes would be compiled again
            return torch.empty(CUT, end, 1, 1, dtype=torch.int32, device=device)
    rows = [end] if first is None else [end, first]
    rows = [torch.as_tensor(row, dtype=torch.int32, device=device).expand(batch) for row in rows]
    return torch.stack(rows).view(len(rows), batch, 1, 1)


def _list_parts(function: Any) -> set[str]:
    """Name the functions whose intersection the mask is."""
    name = getattr(function, "__qualname__", "")
    if not name.startswith("and_masks."):
        return {name}
    return set().union(*(_list_parts(part) for part in inspect.getclosurevars(function).nonlocals["mask_functions"]))


def attention_forward(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0, scaling: float | None = None,
    sliding_window: int | None = None, softcap: float | None = None, is_causal: bool | None = None, s_aux: Any = None,
    **options: Any,
) -> tuple[Any, None]:  # fmt: skip
    """Compute (batch, heads, rows, d) for a layer. The result is (batch, rows, heads, d)."""
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    kind = attention_mask.shape[0] if attention_mask is not None and attention_mask.dtype == torch.int32 else None
    if kind == PACKED or options.get("cu_seq_lens_q") is not None:
        return _attend_packed(
            module, query, key, value, dropout, scaling=scaling, sliding_window=sliding_window, softcap=softcap, is_causal=causal,
            s_aux=s_aux, **options,
        )  # fmt: skip
    if attention_mask is not None and (kind is None or attention_mask.dim() != MASK_RANK):
        return _leave("attention_mask: is not causal with padding on one side", _to_sdpa(locals()))
    if dropout or options.get("position_bias") is not None:
        kind = LENGTHS
        return _leave("dropout, position_bias: FlashCore has no kernel with it", _to_sdpa(locals()))
    if kind == CUT:
        key, value = (tensor[:, :, : attention_mask.shape[1]] for tensor in (key, value))
    rows = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    window = (-1, -1)
    if sliding_window is not None and key.shape[2] > sliding_window:
        window = (sliding_window - 1, 0 if causal else sliding_window - 1)
    limits = (
        attention_mask[0].flatten() if kind in {LENGTHS, PADDING} else None,
        attention_mask[1].flatten() if kind == PADDING else None,
    )
    return attend(DOOR, rows, limits, (scaling, causal, *window, softcap or 0.0), functions.to_sinks(s_aux)), None


def _attend_packed(module: Any, query: Any, key: Any, value: Any, dropout: float, **options: Any) -> tuple[Any, None]:
    """Let Transformers find the sequences, and call ``flash_attn_varlen_func``."""
    from transformers.integrations.flash_attention import flash_attention_forward

    if dropout:
        raise RefusalError(
            "dropout: FlashCore has no kernel with it. Set attention_dropout to 0, or use attn_implementation='sdpa'"
        )
    result: tuple[Any, None] = flash_attention_forward(module, query, key, value, None, **options)
    return result


def _to_sdpa(given: dict[str, Any]) -> Callable[[], Any]:
    """Return a call of Transformers' own function for SDPA with a layer's arguments."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    names = ("module", "query", "key", "value", "attention_mask")
    return lambda: sdpa_attention_forward(
        *(given[name] for name in names), dropout=given["dropout"], scaling=given["scaling"], is_causal=given["causal"],
        **given["options"],
    )  # fmt: skip


def _leave(reason: str, otherwise: Callable[[], Any]) -> Any:
    if is_strict():
        raise RefusalError(reason)
    log_once(DOOR, "SDPA", reason)
    return otherwise()

"""Round 16-bit queries, keys and values to E4M3 with a factor for each block of rows, and bring columns of values into order."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from flashcore import _library
from flashcore._tensors import DTYPES, check_device, check_exactly, current_stream, get_ordinal

RANK, WORD, KEYS = 4, 32, 128
HEAD_DIMS = (64, 128, 256)
ROWS = {"q": 64, "k": KEYS, "v": KEYS}
"""Rows of a block."""
SIGNS = (0x9E3779B9, 0x7F4A7C15, 0xBF58476D, 0x94D049BB, 0xD6E8FEB8, 0x6A09E667, 0xBB67AE85, 0x3C6EF372)
"""Columns that the Hadamard transform negates first. Any words do, the same for queries and keys."""


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreQuantiseBlocksArguments in flashcore/quantise/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("device", "dtype", "kind")),
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "rows", "heads", "head_dim", "batch_stride", "row_stride", "head_stride")
        ),
        *((name, ctypes.c_void_p) for name in ("x", "values", "scale")),
        ("signs", ctypes.c_uint32 * len(SIGNS)),
        ("transform", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
    ]  # fmt: skip


class PermuteArguments(ctypes.Structure):
    """Mirror of FlashcoreE4m3PermuteArguments."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "kv_heads", "sk", "head_dim", "batch_stride", "column_stride", "head_stride")
        ),
        *((name, ctypes.c_void_p) for name in ("v", "values", "stream")),
    ]  # fmt: skip


def quantise_blocks(
    x: torch.Tensor,
    kind: str,
    *,
    signs: Sequence[int] | None = None,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Round ``x`` (batch, rows, heads, d) to E4M3, and return the bytes with their scales (batch, heads, blocks). ``kind``: q, k or v.

    A scale is the largest magnitude of 64 queries or of 128 keys / 448. Values are also transposed, as ``transpose_values`` does. With ``signs``,
    a word for each 32 columns, a Hadamard transform comes first: the same for queries and keys, it changes no score. Transformed keys are rounded
    so that they keep their length.
    """
    check_device(x, x, "x")
    if x.dim() != RANK or x.shape[-1] not in HEAD_DIMS or (x.numel() and x.stride(-1) != 1) or x.dtype not in DTYPES:
        wanted = "float16 or bfloat16 (batch, rows, heads, 64, 128 or 256) with contiguous columns"
        raise ValueError(f"x: must be {wanted}, is {x.dtype} {tuple(x.shape)}")
    if kind not in ROWS:
        raise ValueError(f"kind: must be one of {', '.join(ROWS)}, is {kind!r}")
    if kind == "v" and signs is not None:
        raise ValueError("signs: values are not transformed. Pass None")
    batch, rows, heads, head_dim = x.shape
    shape = (batch, heads, head_dim, -(-rows // KEYS) * KEYS) if kind == "v" else tuple(x.shape)
    scales = (batch, heads, -(-rows // ROWS[kind]))
    values, scale = out or (
        torch.empty(shape, dtype=torch.uint8, device=x.device),
        torch.empty(scales, dtype=torch.float32, device=x.device),
    )
    check_exactly(values, x, "values", torch.uint8, shape)
    check_exactly(scale, x, "scale", torch.float32, scales)
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(x),
        dtype=DTYPES[x.dtype],
        kind=list(ROWS).index(kind),
        batch=batch,
        rows=rows,
        heads=heads,
        head_dim=head_dim,
        batch_stride=x.stride(0),
        row_stride=x.stride(1),
        head_stride=x.stride(2),
        x=x.data_ptr(),
        values=values.data_ptr(),
        scale=scale.data_ptr(),
        signs=(ctypes.c_uint32 * len(SIGNS))(*(signs or ())),
        transform=signs is not None,
        stream=current_stream(get_ordinal(x)),
    )
    _call("flashcore_quantise_blocks", arguments)
    return values, scale


def quantise_e4m3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, hadamard: bool = True) -> dict[str, torch.Tensor | bool]:
    """Round to E4M3 with scales of blocks, and return the arguments of ``attention_e4m3``. Shapes are those of ``attention``.

    ``hadamard`` spreads an outlier channel of queries and keys over all channels.
    """
    signs = SIGNS if hadamard else None
    rounded: dict[str, torch.Tensor | bool] = {"transposed": True}
    for kind, x in zip("qkv", (q, k, v), strict=True):
        values, rounded[f"{kind}_scale"] = quantise_blocks(x, kind, signs=None if kind == "v" else signs)
        rounded[kind] = values.view(torch.float8_e4m3fn)
    return rounded


def is_columns(v: torch.Tensor) -> bool:
    """Return whether keys of a column of ``v`` (batch, keys, kv heads, d) are neighbours, so that FlashAttention-3 calls it column-major."""
    return v.dim() == RANK and v.numel() > 0 and v.stride(-1) != 1 and v.stride(1) == 1


def permute_columns(v: torch.Tensor) -> torch.Tensor:
    """Bring E4M3 values in columns into the order that ``transpose_values`` gives. Nothing is transposed."""
    batch, keys, kv_heads, head_dim = v.shape
    values = torch.empty((batch, kv_heads, head_dim, -(-keys // KEYS) * KEYS), dtype=torch.uint8, device=v.device)
    arguments = PermuteArguments(
        size=ctypes.sizeof(PermuteArguments),
        device=get_ordinal(v),
        batch=batch,
        kv_heads=kv_heads,
        sk=keys,
        head_dim=head_dim,
        batch_stride=v.stride(0),
        column_stride=v.stride(3),
        head_stride=v.stride(2),
        v=v.data_ptr(),
        values=values.data_ptr(),
        stream=current_stream(get_ordinal(v)),
    )
    _call("flashcore_e4m3_permute", arguments)
    return values


def _call(name: str, arguments: ctypes.Structure) -> None:
    library = _library.get_library("e4m3")
    try:
        function = getattr(library, name)
    except AttributeError:
        built = "flashcore-ci build --suite gates/fp8-quantise.toml"
        raise _library.LibraryError(f"{name}: the library of E4M3 was built without it. Build it with: {built}") from None
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int
    status = function(ctypes.addressof(arguments))
    if status != _library.OK:
        _library.refuse(library, status)

"""FlashAttention-3's operators and modules, on FlashCore's kernels: ``import flashcore.fa3``.

It defines the namespace ``flash_attn_3::`` and the modules ``flash_attn_interface`` and ``flash_attn_3.flash_attn_interface``. PyTorch
allows one library per namespace, so a process has this package or FlashAttention-3's, and the second import is an ImportError.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from flashcore import _replay, ops
from flashcore._combine import flash_attn_combine, make_results
from flashcore._flash import flash_attn_func, flash_attn_varlen_func, refuse_unsupported
from flashcore._kvcache import flash_attn_with_kvcache, make_table
from flashcore._overload import shorten
from flashcore._rotary import have_positions, rotate
from flashcore._tensors import Result
from flashcore.doors.private import flash_attn_backward, flash_attn_forward

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]

NAMESPACE, COMPILED = "flash_attn_3", "flash_attn_3._C"
MODULES = ("flash_attn_interface", "flash_attn_3.flash_attn_interface")
CONFLICT = (
    "flash_attn_3:: belongs to {owner} in this process. PyTorch allows one library per namespace. "
    "Import either flashcore.fa3 or FlashAttention-3's package, in a new process"
)
_TENSORS = (
    "cu_seqlens_q", "cu_seqlens_k", "cu_seqlens_k_new", "seqused_q", "seqused_k", "max_seqlen_q", "max_seqlen_k", "page_table",
    "kv_batch_idx", "leftpad_k", "rotary_cos", "rotary_sin", "seqlens_rotary", "q_descale", "k_descale", "v_descale",
)  # fmt: skip
_MIDDLE = ", ".join(f"{'int' if 'max' in name else 'Tensor'}? {name} = None" for name in _TENSORS)
_WINDOW = "int window_size_left = -1, int window_size_right = -1, int attention_chunk = 0, float softcap = 0.0"
_END = (
    "Tensor? scheduler_metadata = None, int num_splits = {splits}, bool? pack_gqa = None, int sm_margin = 0, Tensor? sinks = None"
)
SCHEMAS = {
    "fwd": (
        "(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new = None, Tensor(v_new!)? v_new = None, Tensor? q_v = None, "
        f"Tensor(out!)? out = None, {_MIDDLE}, float? softmax_scale = None, bool is_causal = False, {_WINDOW}, "
        f"bool is_rotary_interleaved = False, {_END.format(splits=0)}) -> (Tensor(out!), Tensor, Tensor, Tensor)"
    ),
    "_flash_attn_forward": (
        "(Tensor q, Tensor k, Tensor v, Tensor? k_new = None, Tensor? v_new = None, Tensor? qv = None, Tensor? out_ = None, "
        f"{_MIDDLE}, float? softmax_scale = None, bool causal = False, {_WINDOW}, bool rotary_interleaved = True, "
        f"{_END.format(splits=1)}) -> (Tensor, Tensor, Tensor, Tensor)"
    ),
    "bwd": (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor(dq!)? dq = None, Tensor(dk!)? dk = None, "
        "Tensor(dv!)? dv = None, Tensor? cu_seqlens_q = None, Tensor? cu_seqlens_k = None, Tensor? seqused_q = None, "
        "Tensor? seqused_k = None, int? max_seqlen_q = None, int? max_seqlen_k = None, float? softmax_scale = None, "
        "bool is_causal = False, int window_size_left = -1, int window_size_right = -1, float softcap = 0.0, "
        "bool deterministic = False, int sm_margin = 0) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    ),
    "fwd_combine": (
        "(Tensor out_partial, Tensor lse_partial, Tensor(out!)? out = None, ScalarType? out_dtype = None) -> (Tensor(out!), Tensor)"
    ),
    "get_scheduler_metadata": (
        "(int batch_size, int max_seqlen_q, int max_seqlen_k, int num_heads, int num_heads_k, int headdim, int headdim_v, "
        "ScalarType qkv_dtype, Tensor seqused_k, Tensor? cu_seqlens_q = None, Tensor? cu_seqlens_k = None, "
        "Tensor? cu_seqlens_k_new = None, Tensor? seqused_q = None, Tensor? leftpad_k = None, int? page_size = None, "
        "int max_seqlen_k_new = 0, bool is_causal = False, int window_size_left = -1, int window_size_right = -1, "
        "int attention_chunk = 0, bool has_softcap = False, int num_splits = 0, bool? pack_gqa = None, int sm_margin = 0) -> Tensor"
    ),
}
NAMES, _LETTERS = _replay.parse(SCHEMAS["fwd"])
_FIRST_DEFAULT = 3  # q, k and v have none
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(NAMES[_FIRST_DEFAULT:]), "is_causal": False, "window_size_left": -1, "window_size_right": -1, "attention_chunk": 0,
    "softcap": 0.0, "is_rotary_interleaved": False, "num_splits": 0, "sm_margin": 0,
}  # fmt: skip
_REFUSED: Mapping[str, Any] = {"q_v": None}


def _to_operator(a: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of ``flashcore::fwd`` after q, k and v. NotImplementedError names what it does not serve."""
    refuse_unsupported(_REFUSED, tuple(a[name] for name in _REFUSED))
    return (
        *(a[name] for name in ops.OPTIONAL_TENSORS), a["max_seqlen_q"], a["max_seqlen_k"], a["softmax_scale"], a["is_causal"],
        a["num_splits"], a["sm_margin"], a["window_size_left"], a["window_size_right"], a["attention_chunk"], a["softcap"], a["sinks"],
    )  # fmt: skip


def _complete(arguments: Sequence[Any]) -> dict[str, Any]:
    """Name the arguments of ``fwd``, with the defaults that the dispatcher leaves out."""
    return {**_DEFAULTS, **dict(zip(NAMES, arguments, strict=False))}


def _fwd(*arguments: Any) -> Any:
    a = _complete(arguments)
    if a["kv_batch_idx"] is not None:
        a["page_table"] = make_table(a["kv_batch_idx"], a["page_table"])
    rest, starts = _to_operator(a), (a["cu_seqlens_q"], a["cu_seqlens_k_new"])
    if a["rotary_cos"] is not None or a["rotary_sin"] is not None:
        positions = a["seqused_k"] if a["seqlens_rotary"] is None else a["seqlens_rotary"]
        keys = a["k"].shape[1] * (1 if a["page_table"] is None else a["page_table"].shape[1])
        longest = (a["q"].shape[1] if starts[0] is None else a["max_seqlen_q"], keys)
        window = (a["window_size_left"], a["window_size_right"])
        a["q"], a["k_new"] = rotate(
            a["q"], a["k_new"], (a["rotary_cos"], a["rotary_sin"]), positions, starts,
            interleaved=a["is_rotary_interleaved"], causal=have_positions(a["is_causal"], window, a["attention_chunk"], longest),
        )  # fmt: skip
    out, lse = ops.compute(
        (a["out"], None), (a["q"], a["k"], a["v"]), (a["k_new"], a["v_new"]), rest, return_lse=True, new_starts=starts[1],
        padding=a["leftpad_k"],
    )  # fmt: skip
    return out, lse, None, None


def _flash_attn_forward(*arguments: Any) -> Any:
    """Compose the functional operator of ``flashcore::``, which has shapes and gradients."""
    a = {**_complete(arguments), "num_splits": 1}
    a.update(dict(zip(NAMES, arguments, strict=False)))
    for name in ("k_new", "v_new", "out", "cu_seqlens_k_new", "kv_batch_idx", "leftpad_k", "rotary_cos", "rotary_sin"):
        if a[name] is not None:
            raise NotImplementedError(f"{name}: this operator has no cache that it writes. Call flash_attn_3::fwd")
    out, lse = ops.FWD(a["q"], a["k"], a["v"], *_to_operator(a))
    return out, lse, out.new_empty(0), out.new_empty(0)


def _bwd(*arguments: Any) -> Any:
    names, _ = _replay.parse(SCHEMAS["bwd"])
    a = {**dict.fromkeys(names), **dict(zip(names, arguments, strict=False))}
    left, right = (-1 if a[name] is None else a[name] for name in ("window_size_left", "window_size_right"))
    refuse_unsupported(
        {"seqused_q": None, "seqused_k": None, "softcap": 0.0}, (a["seqused_q"], a["seqused_k"], a["softcap"] or 0.0)
    )
    gradients = torch.ops.flashcore.bwd(
        a["dout"], a["q"], a["k"], a["v"], a["out"], a["softmax_lse"], a["cu_seqlens_q"], a["cu_seqlens_k"], a["max_seqlen_q"],
        a["max_seqlen_k"], a["softmax_scale"], bool(a["is_causal"]), left, right,
    )  # fmt: skip
    for name, gradient in zip(("dq", "dk", "dv"), gradients, strict=True):
        if a[name] is not None:
            a[name].copy_(gradient)
    return tuple(a["softmax_lse"].new_empty(0) for _ in range(5))


def _get_scheduler_metadata(batch_size: int, *arguments: Any) -> torch.Tensor:
    """Return a tensor of the type that FlashAttention-3 returns. Nothing reads it, so servers may copy it."""
    seqused_k = arguments[SCHEMAS["get_scheduler_metadata"].split(", ").index("Tensor seqused_k") - 1]
    return torch.zeros(batch_size + 1, dtype=torch.int32, device=seqused_k.device)


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    *rest: Any,
    num_heads_q: int | None = None,
    **options: Any,
) -> Result:
    """Compute ``flash_attn_func`` of one tensor: (batch, rows, 3, heads, d), or (batch, rows, all heads, d) with ``num_heads_q``."""
    if num_heads_q is None:
        q, k, v = qkv.unbind(dim=2)
    else:
        kv_heads = (qkv.shape[2] - num_heads_q) // 2
        q, k, v = qkv.split((num_heads_q, kv_heads, kv_heads), dim=2)
    if rest:
        raise NotImplementedError("flash_attn_qkvpacked_func: FlashCore takes the arguments after causal by name")
    return flash_attn_func(q, k, v, softmax_scale, causal, **options)


def get_scheduler_metadata(batch_size: int, *_arguments: Any, **options: Any) -> torch.Tensor:
    """Return an int32 tensor, which every function here ignores."""
    lengths = next((value for value in (*_arguments, *options.values()) if isinstance(value, torch.Tensor)), None)
    return torch.zeros(batch_size + 1, dtype=torch.int32, device=None if lengths is None else lengths.device)


class _Finder(importlib.abc.MetaPathFinder):
    """Refuse FlashAttention-3's compiled module, because its second library of the namespace would end the process."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        if name == COMPILED:
            raise ImportError(CONFLICT.format(owner="FlashCore"), name=name)


def _define() -> Any:
    """Define the operators. ImportError if another package has."""
    conflict = ImportError(CONFLICT.format(owner="another package"), name=NAMESPACE)
    if COMPILED in sys.modules or hasattr(torch.ops.flash_attn_3, "fwd"):
        raise conflict
    try:
        library = torch.library.Library(NAMESPACE, "DEF")
    except RuntimeError as error:
        raise conflict from error
    for name, schema in SCHEMAS.items():
        library.define(name + schema)
    _replay.implement(library, "fwd", SCHEMAS["fwd"], _fwd, _replay.FLASH3)
    library.impl("_flash_attn_forward", _flash_attn_forward, "CompositeImplicitAutograd")
    library.impl("bwd", _bwd, _replay.KEY)
    library.impl("fwd_combine", flash_attn_combine, _replay.KEY)
    library.impl("get_scheduler_metadata", _get_scheduler_metadata, _replay.KEY)
    torch.library.register_fake(f"{NAMESPACE}::fwd", _fake_fwd, lib=library)
    torch.library.register_fake(f"{NAMESPACE}::fwd_combine", _fake_combine, lib=library)
    shorten(torch.ops.flash_attn_3.fwd)
    return library


def _fake_combine(out_partial: Any, _lse_partial: Any, out: Any = None, out_dtype: Any = None) -> Any:
    out, lse = make_results(out_partial, out, out_dtype)
    return out, lse.transpose(1, 2)


def _fake_fwd(*arguments: Any) -> Any:
    a = _complete(arguments)
    out, lse = torch.ops.flashcore.fwd(a["q"], a["k"], a["v"], *_to_operator(a))
    return (out if a["out"] is None else a["out"]), lse, None, None


def _publish() -> None:
    """Put the modules that FlashAttention-3's users import into ``sys.modules``."""
    package = ModuleType(NAMESPACE, __doc__)
    package.__path__ = []
    package.__spec__ = importlib.machinery.ModuleSpec(NAMESPACE, None, is_package=True)
    for name in MODULES:
        module = ModuleType(name, __doc__)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)  # programs ask with find_spec whether it is there
        module.__dict__.update({function: globals()[function] for function in __all__}, flash_attn_3_gpu=torch.ops.flash_attn_3)
        module.__dict__.update(_flash_attn_forward=flash_attn_forward, _flash_attn_backward=flash_attn_backward)
        sys.modules[name] = module
    sys.modules[NAMESPACE] = package
    vars(package)["flash_attn_interface"] = sys.modules[MODULES[1]]
    sys.meta_path.insert(0, _Finder())


_LIBRARY = _define()
_publish()

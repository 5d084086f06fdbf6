"""FlashAttention-3's functions: order of arguments, refused values, and which kernel each call launches."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import standin_torch as torch

PREFILL = (
    "softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1), "
    "attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0, return_attn_probs=False, sinks=None"
)
SIGNATURES = {  # of flash_attn_interface, package tokenspeed-fa3 3.0.0.post20260810
    "flash_attn_func": f"q, k, v, {PREFILL}",
    "flash_attn_varlen_func": (
        f"q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None, {PREFILL}"
    ),
    "flash_attn_with_kvcache": (
        "q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, cache_batch_idx=None, "
        "cache_leftpad=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, "
        "q_descale=None, k_descale=None, v_descale=None, softmax_scale=None, causal=False, window_size=(-1, -1), attention_chunk=0, "
        "softcap=0.0, rotary_interleaved=True, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, "
        "return_softmax_lse=False, sinks=None"
    ),
}
TENSOR = torch.empty(4, dtype=torch.float32)
REFUSED = {
    "qv": TENSOR,
}
SCALES = dict.fromkeys(("q_descale", "k_descale", "v_descale"), TENSOR)
REFUSED_PREFILL = {**REFUSED, **SCALES}
REFUSED_CACHE = REFUSED
NEW = {"k": torch.empty(3, 20, 2, 64), "v": torch.empty(3, 20, 2, 64)}
FOUR = {"k_cache": torch.empty(4, 100, 2, 64), "v_cache": torch.empty(4, 100, 2, 64)}
ONE_HEAD = {"k": torch.empty(3, 20, 1, 64), "v": torch.empty(3, 20, 1, 64)}
SINGLE = torch.empty(3, 20, 2, 64, dtype=torch.float32)
LENGTHS = torch.empty(3, dtype=torch.int32)
NEW_36 = {"k": torch.empty(3, 5, 2, 36), "v": torch.empty(3, 5, 2, 36), "cache_seqlens": 40}
SHARED_ROWS = torch.Tensor((3, 100, 2, 64), (0, 128, 64, 1))
MANY_96 = torch.empty(3, 17, 4, 96)
APART_96 = torch.Tensor((3, 100, 2, 96), (30_000, 192, 96, 1))
TABLE, STARTS = torch.empty(3, 5, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
HINTS = {"pack_gqa": True, "deterministic": True}


def make_arguments(name: str, queries: int = 1, **changes: Any) -> dict[str, Any]:
    """Make the required arguments, with four query heads and two key heads."""
    q, k = torch.empty(3, queries, 4, 64), torch.empty(3, 100, 2, 64)
    starts = torch.empty(4, dtype=torch.int32)
    return {
        "flash_attn_func": {"q": q, "k": k, "v": k},
        "flash_attn_varlen_func": {
            "q": torch.empty(50, 4, 64), "k": torch.empty(90, 2, 64), "v": torch.empty(90, 2, 64),
            "cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": 30, "max_seqlen_k": 40,
        },
        "flash_attn_with_kvcache": {"q": q, "k_cache": k, "v_cache": k},
    }[name] | changes  # fmt: skip


def with_head_dim(d: int, **changes: Any) -> dict[str, Any]:
    """Replace queries and caches by others of this head dimension."""
    cache = torch.empty(3, 100, 2, d)
    return {"q": torch.empty(3, 1, 4, d), "k_cache": cache, "v_cache": cache, **changes}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_flash_attention_3(bindings: Any, name: str) -> None:
    parameters = inspect.signature(getattr(bindings.flashcore, name)).parameters.values()
    plain = [f"{p.name}={p.default!r}" if p.default is not p.empty else p.name for p in parameters]
    assert ", ".join(plain) == SIGNATURES[name]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        *(("flash_attn_func", *item) for item in REFUSED_PREFILL.items()),
        *(("flash_attn_varlen_func", *item) for item in REFUSED_PREFILL.items()),
        *(("flash_attn_with_kvcache", *item) for item in REFUSED_CACHE.items()),
    ],
)
def test_unsupported_values_are_named_before_any_launch(bindings: Any, name: str, argument: str, value: Any) -> None:
    with pytest.raises(NotImplementedError, match=f"^{argument}: ") as raised:
        getattr(bindings.flashcore, name)(**make_arguments(name, **{argument: value}))
    assert "\n" not in str(raised.value)
    assert bindings.kernels.calls == []


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_argument_is_used_refused_or_a_hint(bindings: Any, name: str) -> None:
    """A new argument fails here until it belongs to one of them."""
    known = set(inspect.signature(getattr(bindings.flashcore, name)).parameters)
    refused = set(REFUSED_CACHE if name == "flash_attn_with_kvcache" else REFUSED_PREFILL)
    used = {"q", "k", "v", "softmax_scale", "causal", "sm_margin"} | set(make_arguments(name))
    used |= {"return_attn_probs", "return_softmax_lse", "cache_seqlens", "page_table", "num_splits", "seqused_q", "seqused_k"}
    used |= {"window_size", "attention_chunk", "softcap", "sinks"}
    used |= {"cache_batch_idx", "cache_leftpad", "cu_seqlens_k_new"} & known
    used |= {"rotary_cos", "rotary_sin", "rotary_seqlens", "rotary_interleaved"} & known
    used |= {*SCALES, *({"cu_seqlens_q"} & known)}
    no_effect = {*HINTS, "max_seqlen_q", "scheduler_metadata"}  # the bound only matters with packed queries
    assert known <= refused | used | no_effect
    assert refused <= known


@pytest.mark.parametrize("window", [(-1, -1), [-1, -1]])
def test_hints_and_defaults_change_nothing(bindings: Any, window: Any) -> None:
    bindings.flashcore.flash_attn_func(**make_arguments("flash_attn_func"), **HINTS, window_size=window, softcap=0)
    bindings.flashcore.flash_attn_with_kvcache(
        **make_arguments("flash_attn_with_kvcache"), window_size=window, max_seqlen_q=1, scheduler_metadata=LENGTHS
    )
    assert [name for name, _ in bindings.kernels.calls] == ["flashcore_attention_forward", "flashcore_decode"]


NOT_A_NUMBER = r"must be a whole number, is (None|'two')$"
PREFILLS = ("flash_attn_func", "flash_attn_varlen_func")


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        *((name, {"q": None}, ValueError, r"^q: must be a tensor of at most 4 dimensions, is NoneType$") for name in SIGNATURES),
        *((name, {"q": None, "sm_margin": 4}, ValueError, r"^q: must be a tensor") for name in SIGNATURES),
        *((name, {"q": [1.0]}, ValueError, r"^q: must be a tensor of at most 4 dimensions, is list$") for name in SIGNATURES),
        *((name, {"k": None}, ValueError, r"^k: must be a tensor .* is NoneType$") for name in PREFILLS),
        *((name, {"v": None}, ValueError, r"^v: must be a tensor .* is NoneType$") for name in PREFILLS),
        *((name, {"num_splits": None}, ValueError, f"^num_splits: {NOT_A_NUMBER}") for name in PREFILLS),
        *(
            (name, {"window_size": (1, 2, 3)}, ValueError, r"^window: must be \(left, right\), is \(1, 2, 3\)$")
            for name in SIGNATURES
        ),
        *((name, {"window_size": ("two", 0)}, ValueError, r"^window: must be a whole number, is 'two'$") for name in SIGNATURES),
        *((name, {"attention_chunk": -1}, ValueError, r"^chunk: must be from 0 to 2147483647, is -1$") for name in SIGNATURES),
        *((name, {"softcap": "two"}, ValueError, r"^softcap: must be a number, is 'two'$") for name in SIGNATURES),
        *((name, {"sinks": [1.0]}, ValueError, r"^sinks: must be a tensor") for name in SIGNATURES),
        *((name, {"sinks": LENGTHS}, ValueError, r"^sinks: must be a tensor of float32 or bfloat16, is ") for name in SIGNATURES),
        *((name, {"sm_margin": "two"}, ValueError, f"^sm_margin: {NOT_A_NUMBER}") for name in SIGNATURES),
        *((name, {"softmax_scale": "two"}, ValueError, r"^scale: must be a number, is 'two'$") for name in SIGNATURES),
        ("flash_attn_with_kvcache", {"num_splits": None}, ValueError, f"^splits: {NOT_A_NUMBER}"),
        ("flash_attn_with_kvcache", {"k_cache": None}, ValueError, r"^k: must be a tensor .* is NoneType$"),
        ("flash_attn_with_kvcache", {"q": torch.empty(64)}, ValueError, r"^q: must have 4 dimensions, has 1$"),
        (
            "flash_attn_with_kvcache",
            {"q": None, "cache_seqlens": 200, "page_table": torch.empty(3, 5, dtype=torch.int32)},
            ValueError,
            r"^q: must be a tensor",
        ),
    ],
)
def test_values_of_wrong_types_are_named_in_one_line(
    bindings: Any, name: str, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = make_arguments(name, **change)
    with pytest.raises(error, match=message) as raised:
        getattr(bindings.flashcore, name)(**arguments)
    assert "\n" not in str(raised.value)
    assert bindings.kernels.calls == []


@pytest.mark.parametrize("splits", [0, 1, 4])
def test_a_prefill_takes_the_number_of_splits_for_a_hint(bindings: Any, splits: int) -> None:
    bindings.flashcore.flash_attn_func(**make_arguments("flash_attn_func", num_splits=splits))
    assert len(bindings.kernels.calls) == 1


def test_dense_prefill(bindings: Any) -> None:
    arguments = make_arguments("flash_attn_func", queries=30)
    out, lse = bindings.flashcore.flash_attn_func(
        **arguments, causal=True, softmax_scale=0.25, sm_margin=12, return_attn_probs=True
    )
    ((name, call),) = bindings.kernels.calls
    assert name == "flashcore_attention_forward"
    assert (call.causal, call.scale, call.max_ctas, call.sq, call.sk) == (1, 0.25, 120, 30, 100)
    assert (call.out.data, call.lse, call.q.data) == (out.address, lse.address, arguments["q"].address)
    assert (out.shape, lse.shape) == ((3, 30, 4, 64), (3, 4, 30))


def test_varlen_prefill(bindings: Any) -> None:
    arguments = make_arguments("flash_attn_varlen_func")
    out, lse = bindings.flashcore.flash_attn_varlen_func(**arguments, causal=True, return_attn_probs=True)
    ((name, call),) = bindings.kernels.calls
    assert name == "flashcore_attention_varlen"
    assert (out.shape, lse.shape) == ((50, 4, 64), (4, 50))
    assert call.causal == 1


@pytest.mark.parametrize("queries", [1, 16])
def test_few_queries_over_a_cache_are_a_decode(bindings: Any, queries: int) -> None:
    lengths, new = torch.empty(3, dtype=torch.int32), torch.empty(3, 5, 2, 64)
    arguments = make_arguments(
        "flash_attn_with_kvcache", queries=queries, k=new, v=new, cache_seqlens=lengths, num_splits=3, sm_margin=2
    )
    out, lse = bindings.flashcore.flash_attn_with_kvcache(**arguments, causal=True, return_softmax_lse=True)
    ((name, call),) = bindings.kernels.calls
    assert name == "flashcore_decode"
    assert (call.causal, call.splits, call.max_ctas, call.sq, call.new_keys, call.capacity) == (1, 3, 130, queries, 5, 100)
    assert (call.lengths, call.k_new.data, call.out.data, call.lse) == (lengths.address, new.address, out.address, lse.address)


def test_pages_are_a_decode(bindings: Any) -> None:
    pool, table = torch.empty(40, 64, 2, 64), torch.empty(3, 5, dtype=torch.int32)
    arguments = make_arguments("flash_attn_with_kvcache", k_cache=pool, v_cache=pool, page_table=table, cache_seqlens=200)
    bindings.flashcore.flash_attn_with_kvcache(**arguments)
    ((name, call),) = bindings.kernels.calls
    assert (name, call.page_size, call.pages, call.table_width) == ("flashcore_decode", 64, 40, 5)
    assert call.lengths


@pytest.mark.parametrize(("lengths", "keys"), [(None, 100), (40, 40), (0, 0)])
def test_many_queries_over_one_length_are_a_prefill(bindings: Any, lengths: Any, keys: int) -> None:
    bindings.flashcore.flash_attn_with_kvcache(
        **make_arguments("flash_attn_with_kvcache", queries=17, cache_seqlens=lengths), causal=True
    )
    ((name, call),) = bindings.kernels.calls
    assert (name, call.sk, call.k.batch_stride) == ("flashcore_attention_forward", keys, 100 * 2 * 64)


def test_many_queries_append_in_place_before_the_prefill(bindings: Any) -> None:
    new = torch.empty(3, 20, 2, 64)
    arguments = make_arguments("flash_attn_with_kvcache", queries=20, k=new, v=new, cache_seqlens=40)
    bindings.flashcore.flash_attn_with_kvcache(**arguments, causal=True)
    assert (slice(40, 60), new) in arguments["k_cache"].written
    assert bindings.kernels.calls[0][1].sk == 60


def test_many_queries_over_different_lengths_are_a_varlen_prefill(bindings: Any) -> None:
    lengths = torch.empty(3, dtype=torch.int32)
    arguments = make_arguments("flash_attn_with_kvcache", queries=20, cache_seqlens=lengths)
    out, lse = bindings.flashcore.flash_attn_with_kvcache(**arguments, return_softmax_lse=True)
    ((name, _),) = bindings.kernels.calls
    assert name == "flashcore_attention_varlen"
    assert (out.shape, lse.shape) == ((3, 20, 4, 64), (3, 4, 20))


@pytest.mark.parametrize(
    ("error", "message", "queries", "changes"),
    [
        (ValueError, r"^cache_seqlens: is None with new keys. Pass", 1, NEW),
        (ValueError, r"^cache_seqlens: 90 and 20 new keys exceed the capacity 100", 20, {**NEW, "cache_seqlens": 90}),
        (ValueError, r"^cache_seqlens: must be a tensor or a whole number from 0 to 100, is -3", 20, {"cache_seqlens": -3}),
        (ValueError, r"^q: must have 4 dimensions, has 3", 20, {"q": torch.empty(3, 20, 64)}),
        (ValueError, r"^cache_seqlens: must be .* 0 to 100, is 101", 20, {"cache_seqlens": 101}),
        (ValueError, r"^v: must have 4 dimensions, is list", 20, {"k": NEW["k"], "v": [1.0], "cache_seqlens": 40}),
        (
            ValueError,
            r"^k_cache: must be .* \(3, 100, 2, 64\) like q, is .* \(4, 100, 2, 64\)",
            20,
            {**FOUR, "cache_seqlens": LENGTHS},
        ),
        (ValueError, r"^k: must be .* \(3, 20, 2, 64\) like q, is .* \(3, 20, 1, 64\)", 20, {**ONE_HEAD, "cache_seqlens": 40}),
        (ValueError, r"^v: must be torch.float16", 20, {**NEW, "v": SINGLE, "cache_seqlens": 40}),
        (ValueError, r"^v: is missing. Pass both", 20, {"k": NEW["k"], "cache_seqlens": 0}),
        (ValueError, r"^k_cache: elements share memory", 20, {**NEW, "k_cache": SHARED_ROWS, "cache_seqlens": 40}),
        (ValueError, r"^q: the head dimension must be a multiple of 8 up to 256, is 36$", 1, with_head_dim(36, **NEW_36)),
        (ValueError, r"^q: the head dimension .* is 264$", 1, with_head_dim(264)),
        (ValueError, r"^k_cache: must be .* \(3, 100, 2, 96\) like q, is .* 64\)$", 17, {"q": torch.empty(3, 17, 4, 96)}),
        (ValueError, r"^k: must have shape \(3, 100, 2, 96\), is \(3, 100, 2, 64\)$", 1, {"q": torch.empty(3, 1, 4, 96)}),
        (ValueError, r"^k_cache: must be .* \(3, 100, 2, 64\) like q, is .* \(4, 100", 17, {**FOUR, "cu_seqlens_q": STARTS}),
        (ValueError, r"^q: must have 3 dimensions \(rows", 17, {"cu_seqlens_q": STARTS}),
        (
            NotImplementedError,
            r"^k_cache: ",
            17,
            with_head_dim(96, q=MANY_96, k_cache=APART_96, v_cache=APART_96, cache_seqlens=LENGTHS),
        ),
    ],
)
def test_unsupported_caches_are_named_in_one_line(
    bindings: Any, error: type[Exception], message: str, queries: int, changes: dict[str, Any]
) -> None:
    arguments = make_arguments("flash_attn_with_kvcache", queries=queries, **changes)
    with pytest.raises(error, match=message):
        bindings.flashcore.flash_attn_with_kvcache(**arguments)
    assert bindings.kernels.calls == []
    assert arguments["k_cache"].written == arguments["v_cache"].written == []

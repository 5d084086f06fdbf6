"""decode over caches of E4M3: the fields of a launch, and bad input. No GPU, no torch."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

D, HEADS, KV_HEADS, CAPACITY = 128, 8, 2, 100
E5M2_ROWS = torch.empty((3, 2, KV_HEADS, D), dtype=torch.float8_e5m2)


def make_fp8_cache(**changes: Any) -> dict[str, Any]:
    """Make a contiguous cache, whose keys have one scale for all, and one query of each sequence."""
    cache = (3, CAPACITY, KV_HEADS, D)
    types = {name: torch.empty(cache, dtype=torch.float8_e4m3fn) for name in ("k", "v")}
    scale = torch.Tensor((3, KV_HEADS), (0, 0), torch.float32)
    return {"q": torch.empty(3, 1, HEADS, D), **types, "k_scale": scale, **changes}


def get_fields(call: tuple[str, Any]) -> dict[str, Any]:
    return {name: getattr(call[1], name) for name, _ in call[1]._fields_}


def test_fields_of_a_launch_over_e4m3(bindings: Any) -> None:
    new = torch.empty(3, 2, KV_HEADS, D, dtype=torch.bfloat16)
    arguments = make_fp8_cache(k_new=new, v_new=new, v_scale=torch.empty(3, KV_HEADS, dtype=torch.float32))
    bindings.flashcore.decode(**arguments)
    fields = get_fields(bindings.kernels.calls[0])
    assert (fields["dtype"], fields["cache_dtype"], fields["new_dtype"]) == (0, 2, 1)
    assert (fields["k"].data, fields["v"].data) == (arguments["k"].address, arguments["v"].address)
    assert (fields["q_scale"], fields["k_scale"]) == (None, arguments["k_scale"].address)
    assert [fields[f"{name}_scale_{kind}_stride"] for name in "kv" for kind in ("batch", "head")] == [0, 0, KV_HEADS, 1]


def make_pages(pages: int, page: int) -> dict[str, Any]:
    cache = {name: torch.empty((pages, page, KV_HEADS, D), dtype=torch.float8_e4m3fn) for name in ("k", "v")}
    return {**cache, "page_table": torch.empty((3, 2), dtype=torch.int32), "k_scale": None}


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((3, CAPACITY, KV_HEADS), (CAPACITY * KV_HEADS, KV_HEADS, 1), (1, CAPACITY * KV_HEADS, KV_HEADS, 1)),
        ((3, CAPACITY, KV_HEADS), (CAPACITY, 1, 3 * CAPACITY), (1, CAPACITY, 1, 3 * CAPACITY)),
        ((3, CAPACITY, KV_HEADS), (0, 0, 0), (1, 0, 0, 0)),
        ((3, KV_HEADS), (KV_HEADS, 1), (0, KV_HEADS, 0, 1)),
    ],
)
def test_three_dimensions_are_scales_of_tokens(
    bindings: Any, shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Whatever K's are, V's are those of sequences here."""
    scale = torch.Tensor(shape, strides, torch.float32)
    bindings.flashcore.decode(**make_fp8_cache(k_scale=scale, v_scale=torch.empty(3, KV_HEADS, dtype=torch.float32)))
    fields = get_fields(bindings.kernels.calls[0])
    assert fields["k_scale"] == scale.address
    kinds = ("per_key", "batch_stride", "key_stride", "head_stride")
    assert tuple(fields[f"k_scale_{kind}"] for kind in kinds) == expected
    assert tuple(fields[f"v_scale_{kind}"] for kind in kinds) == (0, KV_HEADS, 0, 1)


@pytest.mark.parametrize("keys", [1, 16])
def test_scales_of_pages_have_one_key(bindings: Any, keys: int) -> None:
    """(pages, 1, kv heads), also where (batch, kv heads) and (pages, kv heads) have the same sizes. The key stride of a page's is 0."""
    scales = {name: torch.empty((3, keys, KV_HEADS), dtype=torch.float32) for name in ("k_scale", "v_scale")}
    bindings.flashcore.decode(**{**make_fp8_cache(), **make_pages(3, 16), **scales})
    fields = get_fields(bindings.kernels.calls[0])
    assert [fields[f"{name}_scale_per_key"] for name in "kv"] == [1, 1]
    assert [fields[f"{name}_scale_key_stride"] for name in "kv"] == [0 if keys == 1 else KV_HEADS] * 2
    assert fields["k_scale_batch_stride"] == keys * KV_HEADS


def test_the_drop_in_takes_scales_of_tokens(bindings: Any) -> None:
    given, scale = make_fp8_cache(), torch.empty((3, CAPACITY, KV_HEADS), dtype=torch.float32)
    bindings.flashcore.flash_attn_with_kvcache(given["q"], given["k"], given["v"], k_descale=scale, v_descale=scale)
    assert get_fields(bindings.kernels.calls[0])["v_scale_per_key"] == 1


def test_scales_of_tokens_are_refused_by_name_where_decode_does_not_serve(bindings: Any) -> None:
    """A prefill, queries of different lengths, and pages without a box."""
    given, scale = make_fp8_cache(), torch.empty((3, CAPACITY, KV_HEADS), dtype=torch.float32)
    cases: list[dict[str, Any]] = [
        {"q": torch.empty(3, 17, HEADS, D)},
        {"q": torch.empty(3, HEADS, D), "cu_seqlens_q": torch.empty((4,), dtype=torch.int32), "max_seqlen_q": 1},
        {"page_table": torch.empty((3, 2), dtype=torch.int32)},
    ]
    for case in cases:
        call = {"q": given["q"], "k_cache": given["k"], "v_cache": given["v"], **case}
        with pytest.raises(NotImplementedError, match=r"^k_descale: FlashCore takes it only over a cache of E4M3, with up to 16"):
            bindings.flashcore.flash_attn_with_kvcache(**call, k_descale=scale)
    assert not bindings.kernels.calls


def test_bytes_are_read_as_e4m3(bindings: Any) -> None:
    stored = {name: torch.empty((3, CAPACITY, KV_HEADS, D), dtype=torch.uint8) for name in ("k", "v")}
    bindings.flashcore.decode(**make_fp8_cache(**stored))
    fields = get_fields(bindings.kernels.calls[0])
    assert (fields["cache_dtype"], fields["k"].data) == (2, stored["k"].address)


def test_an_e4m3_query_gives_bf16(bindings: Any) -> None:
    query = torch.empty(3, 1, HEADS, D, dtype=torch.float8_e4m3fn)
    out = bindings.flashcore.decode(**make_fp8_cache(q=query, q_scale=torch.empty(3, KV_HEADS, dtype=torch.float32)))
    assert (out.dtype, out.shape) == (torch.bfloat16, query.shape)
    assert get_fields(bindings.kernels.calls[0])["dtype"] == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v": torch.empty(3, CAPACITY, KV_HEADS, D)}, "^v: must be E4M3 over caches of E4M3"),
        ({"k": torch.empty((3, CAPACITY, KV_HEADS, D), dtype=torch.float8_e5m2)}, "^k: must be .* is torch.float8_e5m2"),
        ({"v": torch.empty((3, CAPACITY, KV_HEADS, D), dtype=torch.float8_e5m2)}, "^v: must be E4M3 .* is torch.float8_e5m2"),
        ({"q": torch.empty((3, 1, HEADS, D), dtype=torch.float8_e5m2)}, "^q: must be .* is torch.float8_e5m2"),
        ({"k_new": E5M2_ROWS, "v_new": E5M2_ROWS}, "^k_new: must be .* is torch.float8_e5m2"),
        ({"k_scale": torch.empty((3, KV_HEADS, 1), dtype=torch.float32)}, "^k_scale: must be float32 of shape"),
        ({"k_scale": torch.empty((3, 1, KV_HEADS), dtype=torch.float32)}, r"^k_scale: must be float32 of shape \(3, 100, 2\)"),
        (
            {"k_scale": torch.empty((3, CAPACITY, HEADS), dtype=torch.float32)},
            r"^k_scale: must be float32 of shape \(3, 100, 2\)",
        ),
        ({"v_scale": torch.empty(3, CAPACITY, KV_HEADS)}, r"^v_scale: must be float32 of shape \(3, 100, 2\)"),
        ({"q_scale": torch.empty((3, 1, KV_HEADS), dtype=torch.float32)}, "^q_scale: is for E4M3"),
        (
            {**make_pages(9, 16), "k_scale": torch.empty((9, KV_HEADS), dtype=torch.float32)},
            r"^k_scale: must be float32 of shape \(3, 2\)",
        ),
        (
            {**make_pages(9, 16), "v_scale": torch.empty((3, 1, KV_HEADS), dtype=torch.float32)},
            r"^v_scale: must be float32 of shape \(9, 1, 2\)",
        ),
        ({"q_scale": torch.empty(3, KV_HEADS, dtype=torch.float32)}, "^q_scale: is for E4M3, and q is torch.float16"),
        ({"v_scale": torch.empty(3, HEADS, dtype=torch.float32)}, "^v_scale: must be float32 of shape"),
        ({"v_scale": torch.empty(3, KV_HEADS)}, "^v_scale: must be float32 of shape"),
        ({"out": torch.empty((3, 1, HEADS, D), dtype=torch.bfloat16)}, "^out: must be torch.float16 over caches"),
    ],
)
def test_bad_e4m3_input_is_named(bindings: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bindings.flashcore.decode(**make_fp8_cache(**changes))
    assert not bindings.kernels.calls

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

"""attention_e4m3 and transpose_values: the fields of a launch, and bad input. No GPU, no torch."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

D, HEADS, KV_HEADS, QUERIES, KEYS = 128, 8, 2, 100, 300
E4M3 = torch.float8_e4m3fn


def make_arguments(**changes: Any) -> dict[str, Any]:
    keys = {name: torch.empty((3, KEYS, KV_HEADS, D), dtype=E4M3) for name in ("k", "v")}
    return {"q": torch.empty((3, QUERIES, HEADS, D), dtype=E4M3), **keys, **changes}


def get_fields(call: tuple[str, Any]) -> dict[str, Any]:
    return {name: getattr(call[1], name) for name, _ in call[1]._fields_}


def test_fields_of_a_launch(bindings: Any) -> None:
    scale = torch.Tensor((3, KV_HEADS), (0, 0), torch.float32)
    arguments = make_arguments(k_scale=scale, v_scale=torch.empty((3, KV_HEADS), dtype=torch.float32), causal=True)
    out = bindings.flashcore.attention_e4m3(**arguments)
    assert (out.dtype, tuple(out.shape)) == (torch.bfloat16, (3, QUERIES, HEADS, D))
    name, _ = bindings.kernels.calls[0]
    fields = get_fields(bindings.kernels.calls[0])
    assert name == "flashcore_e4m3_forward"
    assert [fields[size] for size in ("batch", "heads", "kv_heads", "sq", "sk", "head_dim")] == [
        3,
        HEADS,
        KV_HEADS,
        QUERIES,
        KEYS,
        D,
    ]
    assert [fields[tensor].data for tensor in "qkv"] == [arguments[tensor].address for tensor in "qkv"]
    assert (fields["causal"], fields["transposed"]) == (1, 0)
    assert fields["workspace_bytes"] == 128 + 3 * KV_HEADS * D * 384
    assert (fields["q_scale"], fields["k_scale"]) == (None, scale.address)
    assert [fields[f"{tensor}_scale_{kind}_stride"] for tensor in "kv" for kind in ("batch", "head")] == [0, 0, KV_HEADS, 1]


def test_transposed_values_need_no_workspace_for_them(bindings: Any) -> None:
    values = torch.empty((3, KV_HEADS, D, 384), dtype=torch.uint8)
    bindings.flashcore.attention_e4m3(**make_arguments(v=values, transposed=True))
    fields = get_fields(bindings.kernels.calls[0])
    assert (fields["transposed"], fields["workspace_bytes"], fields["v"].data) == (1, 128, values.address)


def test_fields_of_a_transposition(bindings: Any) -> None:
    v, scale = torch.empty((3, KEYS, KV_HEADS, D), dtype=torch.bfloat16), torch.empty((3, KV_HEADS), dtype=torch.float32)
    values = bindings.flashcore.transpose_values(v, scale)
    assert (values.dtype, tuple(values.shape)) == (E4M3, (3, KV_HEADS, D, 384))
    name, _ = bindings.kernels.calls[0]
    fields = get_fields(bindings.kernels.calls[0])
    assert name == "flashcore_e4m3_transpose"
    assert (fields["dtype"], fields["sk"], fields["v_scale"], fields["v"].data) == (1, KEYS, scale.address, v.address)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty((3, QUERIES, HEADS, D))}, "^q: must be E4M3 .* is torch.float16"),
        ({"k": torch.empty((3, KEYS, KV_HEADS, D), dtype=torch.float8_e5m2)}, "^k: must be E4M3 .* is torch.float8_e5m2"),
        ({"v": torch.empty((3, KEYS, KV_HEADS, D), dtype=torch.float8_e5m2)}, "^v: must be E4M3 .* is torch.float8_e5m2"),
        ({"v": torch.empty((3, KEYS - 1, KV_HEADS, D), dtype=E4M3)}, "^v: must have shape"),
        ({"v": torch.empty((3, KV_HEADS, D, KEYS), dtype=E4M3), "transposed": True}, "^v: must have shape"),
        ({"out": torch.empty((3, QUERIES, HEADS, D))}, "^out: must be bfloat16, is torch.float16"),
        ({"k_scale": torch.empty((3, HEADS), dtype=torch.float32)}, "^k_scale: must be float32 of shape"),
        ({"v_scale": torch.empty((3, KV_HEADS))}, "^v_scale: must be float32 of shape"),
        ({"q": torch.empty((QUERIES, HEADS, D), dtype=E4M3)}, "^q: must have 4 dimensions, has 3"),
    ],
)
def test_bad_input_is_named(bindings: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bindings.flashcore.attention_e4m3(**make_arguments(**changes))
    assert not bindings.kernels.calls


def test_flash_attn_func_takes_e4m3(bindings: Any) -> None:
    scale = torch.empty((3, KV_HEADS), dtype=torch.float32)
    tensors = make_arguments()
    out, lse = bindings.flashcore.flash_attn_func(*tensors.values(), k_descale=scale, causal=True, return_attn_probs=True)
    fields = get_fields(bindings.kernels.calls[0])
    assert (out.dtype, tuple(lse.shape)) == (torch.bfloat16, (3, HEADS, QUERIES))
    assert (fields["causal"], fields["q_scale"], fields["k_scale"]) == (1, None, scale.address)


@pytest.mark.parametrize(
    ("name", "value"),
    [("softcap", 30.0), ("window_size", (64, 0)), ("attention_chunk", 64), ("sinks", torch.empty(HEADS, dtype=torch.float32))],
)
def test_flash_attn_func_refuses_windows_caps_and_sinks_in_e4m3(bindings: Any, name: str, value: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"^{name}: "):
        bindings.flashcore.flash_attn_func(*make_arguments().values(), **{name: value})
    assert not bindings.kernels.calls

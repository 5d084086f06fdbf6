"""attention_e4m3_varlen: the fields of a launch, and bad input. No GPU, no torch."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

D, HEADS, KV_HEADS, QUERIES, KEYS, BATCH = 128, 8, 2, 100, 300, 3
E4M3 = torch.float8_e4m3fn


def make_arguments(**changes: Any) -> dict[str, Any]:
    keys = {name: torch.empty((KEYS, KV_HEADS, D), dtype=E4M3) for name in ("k", "v")}
    lengths = {f"cu_seqlens_{name}": torch.empty((BATCH + 1,), dtype=torch.int32) for name in "qk"}
    return {"q": torch.empty((QUERIES, HEADS, D), dtype=E4M3), **keys, **lengths, **changes}


def get_fields(call: tuple[str, Any]) -> dict[str, Any]:
    return {name: getattr(call[1], name) for name, _ in call[1]._fields_}


def test_fields_of_a_launch(bindings: Any) -> None:
    scale = torch.Tensor((BATCH, KV_HEADS), (0, 0), torch.float32)
    used = torch.empty((BATCH,), dtype=torch.int32)
    arguments = make_arguments(
        k_scale=scale, v_scale=torch.empty((BATCH, KV_HEADS), dtype=torch.float32), seqused_k=used, causal=True
    )
    out, lse = bindings.flashcore.attention_e4m3_varlen(**arguments, return_lse=True)
    assert (out.dtype, tuple(out.shape), tuple(lse.shape)) == (torch.bfloat16, (QUERIES, HEADS, D), (HEADS, QUERIES))
    name, _ = bindings.kernels.calls[0]
    fields = get_fields(bindings.kernels.calls[0])
    assert name == "flashcore_e4m3_varlen"
    sizes = [fields[size] for size in ("batch", "heads", "kv_heads", "total_q", "total_k", "head_dim", "causal")]
    assert sizes == [BATCH, HEADS, KV_HEADS, QUERIES, KEYS, D, 1]
    assert [fields[tensor].data for tensor in "qkv"] == [arguments[tensor].address for tensor in "qkv"]
    assert [fields["v"].sequence_stride, fields["v"].head_stride] == [KV_HEADS * D, D]
    names = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k")
    assert [fields[name] for name in names] == [arguments[name].address for name in names]
    assert (fields["seqused_q"], fields["q_scale"], fields["k_scale"]) == (None, None, scale.address)
    assert [fields[f"{tensor}_scale_{kind}_stride"] for tensor in "kv" for kind in ("batch", "head")] == [0, 0, KV_HEADS, 1]
    assert (fields["out"].data, fields["lse"]) == (out.address, lse.address)
    assert fields["workspace_bytes"] > 0


def test_flash_attn_varlen_func_takes_e4m3(bindings: Any) -> None:
    scale = torch.empty((BATCH, KV_HEADS), dtype=torch.float32)
    out, lse = bindings.flashcore.flash_attn_varlen_func(
        *make_arguments().values(), 64, 200, k_descale=scale, causal=True, return_attn_probs=True
    )
    name, _ = bindings.kernels.calls[0]
    fields = get_fields(bindings.kernels.calls[0])
    assert (name, out.dtype, tuple(lse.shape)) == ("flashcore_e4m3_varlen", torch.bfloat16, (HEADS, QUERIES))
    assert (fields["causal"], fields["q_scale"], fields["k_scale"]) == (1, None, scale.address)


@pytest.mark.parametrize(
    ("name", "value"),
    [("softcap", 30.0), ("window_size", (64, 0)), ("attention_chunk", 64), ("sinks", torch.empty(HEADS, dtype=torch.float32))],
)
def test_windows_caps_and_sinks_are_refused(bindings: Any, name: str, value: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"^{name}: "):
        bindings.flashcore.flash_attn_varlen_func(*make_arguments().values(), 64, 200, **{name: value})
    assert not bindings.kernels.calls


def test_scales_of_blocks_are_refused(bindings: Any) -> None:
    scale = torch.empty((BATCH, KV_HEADS, 3), dtype=torch.float32)
    with pytest.raises(NotImplementedError, match=r"^k_scale: .*no scales of blocks"):
        bindings.flashcore.attention_e4m3_varlen(**make_arguments(k_scale=scale))
    assert not bindings.kernels.calls


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty((QUERIES, HEADS, D), dtype=torch.bfloat16)}, "^q: must be E4M3"),
        ({"q": torch.empty((1, QUERIES, HEADS, D), dtype=E4M3)}, r"^q: must have 3 dimensions \(rows"),
        ({"q": torch.empty((QUERIES, HEADS, 64), dtype=E4M3)}, "^k: must have shape"),
        ({"q": torch.empty((QUERIES, HEADS, 96), dtype=E4M3)}, "^q: the head dimension must be 64, 128, 256"),
        ({"v": torch.empty((KEYS - 1, KV_HEADS, D), dtype=E4M3)}, "^v: must have shape"),
        ({"cu_seqlens_k": None}, "^cu_seqlens_k: is missing"),
        ({"cu_seqlens_k": torch.empty((BATCH,), dtype=torch.int32)}, "^cu_seqlens_k: must be contiguous"),
        ({"seqused_k": torch.empty((BATCH,), dtype=torch.int64)}, "^seqused_k: must be contiguous"),
        ({"v_scale": torch.empty((1, KV_HEADS), dtype=torch.float32)}, "^v_scale: must be float32 of shape"),
        ({"out": torch.empty((QUERIES, HEADS, D), dtype=torch.float16)}, "^out: must be bfloat16"),
        ({"lse": torch.empty((QUERIES, HEADS), dtype=torch.float32)}, "^lse: must be contiguous"),
    ],
)
def test_bad_input_is_named(bindings: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bindings.flashcore.attention_e4m3_varlen(**make_arguments(**changes))
    assert not bindings.kernels.calls

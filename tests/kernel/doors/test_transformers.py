"""Models of Transformers compute with FlashCore what they compute with SDPA."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [
    pytest.mark.nightly,  # torch is 200 MB
    pytest.mark.filterwarnings("ignore"),  # of other packages
]

SIZES = {
    "vocab_size": 61, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.fixture
def door(kernels: SimpleNamespace) -> Iterator[SimpleNamespace]:
    pytest.importorskip("transformers", minversion="5.0")
    import torch
    import transformers
    from flashcore.doors import transformers as door

    door.register()
    door.register()
    torch.manual_seed(0)
    yield SimpleNamespace(door=door, hf=transformers, torch=torch, calls=kernels.calls, refused=kernels.refused)
    door.unregister()


def make(door: SimpleNamespace, name: str = "Llama", **changes: Any) -> Any:
    config = getattr(door.hf, f"{name}Config")(**{**SIZES, **changes})
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 0, None, 1
    return getattr(door.hf, f"{name}ForCausalLM")(config).eval()


def both(door: SimpleNamespace, model: Any, call: Any) -> Any:
    """Return the results with SDPA and with FlashCore."""
    results = []
    for name in ("sdpa", "flashcore"):
        model.set_attn_implementation(name)
        results.append(call(model))
    return results


def draw(door: SimpleNamespace, batch: int = 3, length: int = 9, pad: tuple[int, ...] = (), *, right: bool = False) -> Any:
    ids = door.torch.randint(2, 61, (batch, length))
    mask = door.torch.ones_like(ids)
    for row, count in enumerate(pad):
        mask[row, length - count if right else 0 : length if right else count] = 0
    return {"input_ids": ids, "attention_mask": mask}


def test_a_closed_door_is_closed(door: SimpleNamespace) -> None:
    model, inputs = make(door), draw(door)
    model.set_attn_implementation("flashcore")
    model(**inputs)
    assert door.calls
    door.door.unregister()
    with pytest.raises(KeyError, match="flashcore"):
        model(**inputs)
    door.door.register()
    model(**inputs)


@pytest.mark.parametrize(
    ("pad", "right"),
    [((), False), ((4, 0, 2), False), ((4, 0, 2), True), ((8, 8, 8), False)],
    ids=["none", "left", "right", "most"],
)
def test_logits_equal_sdpas(door: SimpleNamespace, pad: Any, right: bool) -> None:
    model, inputs = make(door), draw(door, pad=pad, right=right)
    expected, actual = both(door, model, lambda m: m(**inputs, use_cache=False).logits)
    valid = inputs["attention_mask"].bool()
    door.torch.testing.assert_close(actual[valid], expected[valid], rtol=1e-4, atol=1e-4)
    assert len(door.calls) == 2


def test_a_mask_with_holes_is_left_to_sdpa(door: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = make(door), draw(door)
    inputs["attention_mask"][1, 3:5] = 0
    with caplog.at_level(logging.INFO, "flashcore"):
        expected, actual = both(door, model, lambda m: m(**inputs).logits)
    door.torch.testing.assert_close(actual, expected)
    assert door.calls == []
    assert [r.getMessage() for r in caplog.records if r.name == "flashcore"] == [
        "Transformers: SDPA, because FlashCore refused: attention_mask: is not causal with padding on one side"
    ]


@pytest.mark.parametrize("pad", [(), (4, 0, 2)], ids=["equal", "left padding"])
@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", ["flashcore", "flashcore_fa3"])
def test_generate_gives_the_same_tokens(door: SimpleNamespace, pad: Any, cache: Any, name: str) -> None:
    model, inputs = make(door), draw(door, pad=pad)
    options = {"max_new_tokens": 12, "do_sample": False, **cache}
    expected = model.generate(**inputs, **options)
    model.set_attn_implementation(name)
    actual = model.generate(**inputs, **options)
    assert actual.tolist() == expected.tolist()
    assert len(door.calls) == 24


@pytest.mark.parametrize(("rows", "known"), [(1, False), (5, True), (5, False)])
def test_keys_beyond_the_length_of_a_static_cache_are_cut(door: SimpleNamespace, rows: int, known: bool) -> None:
    """What is beyond is not a number, so that reading it shows. ``known`` is a length that is no tensor."""
    torch = door.torch
    module = SimpleNamespace(is_causal=True)
    q, k, v = torch.randn(2, 4, rows, 16), torch.randn(2, 2, 32, 16), torch.randn(2, 2, 32, 16)
    used = 7
    k[:, :, used:], v[:, :, used:] = torch.nan, torch.nan
    offset = used - rows if known else torch.tensor(used - rows)
    mask = door.door.make_mask(2, rows, 32, offset, device="cpu")
    assert (mask.dim(), mask.dtype) == (4, torch.int32)
    actual, _ = door.door.attention_forward(module, q, k, v, mask)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k[:, :, :used], v[:, :, :used], attn_mask=torch.ones(rows, used, dtype=bool).tril(used - rows), enable_gqa=True
    )
    torch.testing.assert_close(actual.transpose(1, 2), expected)


@pytest.mark.parametrize("name", ["Mistral", "Gemma2"])
@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"])
def test_windows_and_caps(door: SimpleNamespace, name: str, cache: Any) -> None:
    """Eager attention is the reference, because SDPA has no cap."""
    model = make(door, name, sliding_window=6, **({"head_dim": 16, "attn_logit_softcapping": 2.0} if name == "Gemma2" else {}))
    inputs, options = draw(door, pad=(4, 0, 2)), {"max_new_tokens": 12, "do_sample": False, **cache}
    model.set_attn_implementation("eager")
    expected = model.generate(**inputs, **options)
    model.set_attn_implementation("flashcore")
    assert model.generate(**inputs, **options).tolist() == expected.tolist()
    assert door.calls


def test_sinks_of_a_model(door: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(
        door,
        "GptOss",
        head_dim=16,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
    )
    with door.torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.normal_()
    inputs = draw(door)
    monkeypatch.setattr(type(model), "_compatible_flash_implementations", None)  # else Transformers takes a kernel from its list
    model.set_attn_implementation("eager")
    expected = model(**inputs).logits
    model.set_attn_implementation("flashcore")
    door.torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-4, atol=1e-4)
    assert len(door.calls) == 2


def test_packed_sequences_stay_apart(door: SimpleNamespace) -> None:
    model, ids = make(door), draw(door, 1, 11)["input_ids"]
    places = door.torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]])
    expected, actual = both(door, model, lambda m: m(input_ids=ids, position_ids=places, use_cache=False).logits)
    door.torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert door.calls == ["flash_attn_varlen_func"] * 2


def test_continuous_batching_gives_the_same_tokens(door: SimpleNamespace) -> None:
    model = make(door)
    prompts = [door.torch.randint(2, 61, (n,)).tolist() for n in (5, 9, 3)]
    config = door.hf.GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    cached = door.hf.ContinuousBatchingConfig(num_blocks=32, block_size=16, max_batch_tokens=32, use_cuda_graph=False)

    def run(m: Any) -> Any:
        results = m.generate_batch(prompts, generation_config=config, continuous_batching_config=cached)
        return sorted(tuple(result.generated_tokens) for result in results.values())

    model.set_attn_implementation("paged|sdpa")
    expected = run(model)
    model.set_attn_implementation("flashcore")
    assert run(model) == expected
    assert door.calls


def test_a_step_over_pages_is_called_by_keyword(door: SimpleNamespace) -> None:
    """Continuous batching does so on a GPU."""
    from flashcore.doors import functions

    torch = door.torch
    q, k, v, pools = torch.randn(2, 1, 4, 16), torch.randn(2, 1, 2, 16), torch.randn(2, 1, 2, 16), torch.zeros(2, 6, 16, 2, 16)
    table, used = torch.tensor([[3, 1], [0, -1]], dtype=torch.int32), torch.tensor([16, 0], dtype=torch.int32)
    out = functions.flash_attn_with_kvcache(
        q=q, k_cache=pools[0], v_cache=pools[1], k=k, v=v, cache_seqlens=used, page_table=table, causal=True, softmax_scale=0.25
    )
    torch.testing.assert_close(out[1, 0], v[1, 0].repeat_interleave(2, 0))
    torch.testing.assert_close(pools[1][1, 0], v[0, 0])


def test_gradients_reach_the_weights(door: SimpleNamespace) -> None:
    model, inputs = make(door).train(), draw(door)
    losses = []
    for name in ("sdpa", "flashcore"):
        model.set_attn_implementation(name)
        model.zero_grad()
        loss = model(**inputs, labels=inputs["input_ids"], use_cache=False).loss
        loss.backward()
        losses.append((loss.item(), model.model.layers[0].self_attn.q_proj.weight.grad.norm().item()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert set(door.calls) == {"flash_attn_func"}


@pytest.mark.parametrize("pad", [False, True])
def test_a_refusal_is_computed_by_pytorch(door: SimpleNamespace, caplog: pytest.LogCaptureFixture, pad: bool) -> None:
    door.refused.update(dict.fromkeys(("flash_attn_with_kvcache", "attention_varlen"), "q: has a strange head dimension"))
    model, inputs = make(door), draw(door, pad=(4, 0, 2) if pad else ())
    with caplog.at_level(logging.INFO, "flashcore"), door.torch.no_grad():
        expected, actual = both(door, model, lambda m: m(**inputs).logits)
    valid = inputs["attention_mask"].bool()
    door.torch.testing.assert_close(actual[valid], expected[valid], rtol=1e-4, atol=1e-4)
    assert [r.getMessage() for r in caplog.records if r.name == "flashcore"] == [
        "Transformers: PyTorch, because FlashCore refused: q: has a strange head dimension"
    ]


def test_strict_mode_refuses_instead(door: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make(door), draw(door)
    model.set_attn_implementation("flashcore")
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    model(**inputs)
    inputs["attention_mask"][1, 3:5] = 0
    with pytest.raises(NotImplementedError, match="attention_mask: "):
        model(**inputs)


@pytest.mark.parametrize("softcap", [0.0, 3.0])
@pytest.mark.parametrize("sinks", [False, True])
def test_the_plain_computation_equals_the_kernels(door: SimpleNamespace, softcap: float, sinks: bool) -> None:
    from flashcore.doors import layers

    torch = door.torch
    tensors = torch.randn(2, 5, 4, 16), torch.randn(2, 12, 2, 16), torch.randn(2, 12, 2, 16)
    logits = torch.randn(4) if sinks else None
    for limits in ((None, None), (torch.tensor([9, 4], dtype=torch.int32), None)):
        for options in ((None, True, -1, -1, softcap), (0.3, False, 2, 1, softcap), (0.3, True, 3, 0, softcap)):
            expected = layers._call("test", tensors, limits, options, logits)
            torch.testing.assert_close(layers.compute_plainly(tensors, limits, options, logits), expected, rtol=1e-4, atol=1e-4)


def test_a_whole_graph_holds_the_layer(door: SimpleNamespace) -> None:
    torch, module = door.torch, SimpleNamespace(is_causal=True)
    q, k, v = torch.randn(2, 4, 1, 16), torch.randn(2, 2, 32, 16), torch.randn(2, 2, 32, 16)

    def step(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return door.door.attention_forward(module, q, k, v, mask)[0]

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    for length, pad in ((5, None), (9, None), (9, torch.tensor([2, 0])), (12, torch.tensor([3, 1]))):
        mask = door.door._describe(torch.tensor(length), pad, (2, 1, 32), "cpu")
        torch.testing.assert_close(compiled(q, k, v, mask), step(q, k, v, mask))

"""Doors on a Hopper GPU. The proof that one is open is the names of the kernels that ran."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from operator_cases import draw

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

TRITON = "flashcore_triton_forward"


def run(function: Callable[[], Any]) -> tuple[Any, set[str]]:
    """Return the result, and which of our kernels ran: ``hopper``, ``triton`` or none."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as measured:
        result = function()
        torch.cuda.synchronize()
    names = {event.key for event in measured.key_averages() if "flashcore" in event.key}
    return result, {"triton" if TRITON in name else "hopper" for name in names}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLASHCORE_STRICT", raising=False)


@pytest.fixture
def sdpa() -> Iterator[Any]:
    from flashcore.doors import sdpa

    yield sdpa
    sdpa.deactivate()


def bhsd(*sizes: int, grad: bool = False, dtype: Any = None) -> tuple[Any, Any, Any]:
    batch, rows, keys, heads, kv_heads, d = sizes
    shapes = ((heads, rows), (kv_heads, keys), (kv_heads, keys))
    return tuple(draw(batch, h, s, d, seed=i, grad=grad, dtype=dtype) for i, (h, s) in enumerate(shapes))


def attend(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


def exactly(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import torch

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return attend(q.double(), k.double(), v.double(), **options)


@pytest.mark.parametrize("sizes", [(2, 300, 300, 8, 2, 128), (1, 257, 257, 4, 4, 64), (2, 128, 200, 4, 1, 80)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_without_a_context(sdpa: Any, sizes: Any, causal: bool) -> None:
    """``is_causal`` is aligned top left, and PyTorch keeps unequal lengths from this kernel."""
    import torch

    q, k, v = bhsd(*sizes)
    expected, names = run(lambda: attend(q, k, v, is_causal=causal))
    assert names == set()
    sdpa.activate()
    sdpa.activate()
    actual, names = run(lambda: attend(q, k, v, is_causal=causal))
    served = not causal or sizes[1] == sizes[2]
    assert names == ({"hopper"} if served else set())
    exact = exactly(q, k, v, is_causal=causal)
    assert (actual - exact).abs().max() <= 2 * (expected - exact).abs().max() + 1e-3
    sdpa.deactivate()
    assert run(lambda: attend(q, k, v, is_causal=causal))[1] == set()
    assert torch.nn.attention.current_flash_attention_impl() is None


def test_sdpas_gradient_and_graph(sdpa: Any) -> None:
    """PyTorch adds up four heads in bf16, so two right gradients of keys differ by 0.16. Each is compared with float64."""
    import torch

    inputs = bhsd(2, 256, 256, 8, 2, 128, grad=True)

    def step(attention: Callable[..., Any] = attend, tensors: Any = inputs) -> Any:
        out = attention(*tensors, is_causal=True)
        return out.detach(), *torch.autograd.grad(out.to(torch.promote_types(out.dtype, torch.float32)).square().sum(), tensors)

    expected = step()
    exact = step(exactly, tuple(tensor.detach().double().requires_grad_() for tensor in inputs))
    sdpa.activate()
    actual, names = run(step)
    assert names == {"hopper"}
    for name, ours, theirs, right in zip(("out", "dq", "dk", "dv"), actual, expected, exact, strict=True):
        for norm in (2, math.inf):
            error, limit = (torch.linalg.vector_norm(value.double() - right, norm).item() for value in (ours, theirs))
            assert error <= 2 * limit, f"{name}: {error:.2e}, PyTorch {limit:.2e}"
    compiled = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True), fullgraph=True)
    with torch.no_grad():
        compiled(*inputs)
        out, names = run(lambda: compiled(*inputs))
    assert names == {"hopper"}
    torch.testing.assert_close(out, actual[0])


def test_sdpas_refusals_end_at_pytorchs_kernel(sdpa: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = bhsd(2, 128, 128, 4, 4, 64)
    sdpa.activate()
    out, names = run(lambda: attend(q, k, v, dropout_p=0.5))
    assert (out.shape, names) == (q.shape, set())
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    attend(q, k, v)
    with pytest.raises(Exception, match="dropout_p: FlashCore has no kernel"):
        attend(q, k, v, dropout_p=0.5)


def test_pytorchs_own_name_of_flash_attention_3() -> None:
    import flashcore.fa3  # noqa: F401 - the module that PyTorch imports
    import torch
    from torch.nn.attention import SDPBackend, activate_flash_attention_impl, restore_flash_attention_impl, sdpa_kernel

    q, k, v = bhsd(2, 300, 300, 8, 8, 128)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.no_grad():
        expected, names = run(lambda: attend(q, k, v, is_causal=True))
        assert names == set()
        activate_flash_attention_impl("FA3")
        try:
            actual, names = run(lambda: attend(q, k, v, is_causal=True))
            assert names == {"hopper"}
        finally:
            restore_flash_attention_impl()
        assert run(lambda: attend(q, k, v, is_causal=True))[1] == set()
    exact = exactly(q, k, v, is_causal=True)
    assert (actual - exact).abs().max() <= 2 * (expected - exact).abs().max() + 1e-3


def test_pytorchs_packed_sequences(sdpa: Any) -> None:
    import torch
    from torch.nn.attention.varlen import varlen_attn

    starts = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    q, k, v = (draw(300, heads, 128, seed=heads) for heads in (8, 8, 8))
    call = lambda: varlen_attn(q, k, v, starts, starts, 200, 200, window_size=(-1, 0))  # noqa: E731
    expected = call()
    sdpa.activate()
    actual, names = run(call)
    assert names == {"hopper"}
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


@pytest.fixture
def door() -> Iterator[Any]:
    pytest.importorskip("transformers")
    from flashcore.doors import transformers as door

    door.register()
    yield door
    door.unregister()


def make_model(head_dim: int) -> Any:
    import end_to_end
    import torch

    return end_to_end.make_llama((512, 1024, 2, 8, 2, head_dim, 997), "cuda", torch.bfloat16)


@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_models_steps(door: Any, head_dim: int, pad: bool, cache: str) -> None:
    """A prompt and three steps. Only a head dimension of 96 behind padding leaves the Hopper kernels."""
    import torch

    model = make_model(head_dim)
    ids = torch.randint(2, 997, (3, 100), device="cuda")
    mask = torch.ones_like(ids)
    if pad:
        mask[0, :33], mask[2, :70] = 0, 0
    options = {
        "max_new_tokens": 4,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
        "disable_compile": True,
    }
    options["cache_implementation"] = cache
    expected = model.generate(ids, attention_mask=mask, **options)
    model.set_attn_implementation("flashcore")
    actual, names = run(lambda: model.generate(ids, attention_mask=mask, **options))
    assert names, "no kernel of FlashCore ran"
    assert "hopper" in names or (head_dim, pad) == (96, True)
    for step, (a, b) in enumerate(zip(actual.logits, expected.logits, strict=True)):
        same = (actual.sequences[:, 100 : 100 + step] == expected.sequences[:, 100 : 100 + step]).all(1)
        assert same.any()
        assert (a[same] - b[same]).abs().max() <= 0.05 * b.abs().max()


def test_a_compiled_step_with_a_static_cache(door: Any) -> None:
    """``generate`` compiles it and prepares the description of the mask outside."""
    import torch

    model = make_model(128)
    model.set_attn_implementation("flashcore")
    ids = torch.randint(2, 997, (3, 100), device="cuda")
    mask = torch.ones_like(ids)
    mask[0, :33] = 0
    options = {"max_new_tokens": 8, "do_sample": False, "cache_implementation": "static"}
    expected = model.generate(ids, attention_mask=mask, disable_compile=True, **options)
    actual, names = run(lambda: model.generate(ids, attention_mask=mask, **options))
    assert "hopper" in names
    assert (actual == expected).float().mean() > 0.98


@pytest.mark.parametrize("name", ["flashcore", "flashcore_fa3"])
def test_continuous_batching(door: Any, name: str) -> None:
    import torch
    import transformers

    model = make_model(128)
    prompts = [torch.randint(2, 997, (n,)).tolist() for n in (50, 90, 30)]
    config = transformers.GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    model.set_attn_implementation(name)
    results, names = run(lambda: model.generate_batch(prompts, generation_config=config))
    assert "hopper" in names
    assert [len(result.generated_tokens) for result in results.values()] == [6, 6, 6]

"""Gradients of the operators on a Hopper GPU, against PyTorch's own error."""

from __future__ import annotations

import math
from typing import Any

import pytest
from operator_cases import SHAPES, draw, make

pytestmark = pytest.mark.gpu

LIMIT, NOISE = 2.0, 1e-4  # of PyTorch's own error, and what rounding alone may add


@pytest.fixture(scope="module")
def operators(flashcore: Any) -> Any:
    import flashcore.ops  # noqa: F401 - registers the namespace
    import torch

    return torch.ops.flashcore


def attend(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Compute attention with autograd from plain operators, in the type of the inputs. Rows without keys are 0."""
    import torch

    group = q.shape[2] // k.shape[2]
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if causal:
        row = torch.arange(q.shape[2], device=q.device)[:, None] + (k.shape[2] - q.shape[2])
        hidden = torch.arange(k.shape[2], device=q.device) > row
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        return (torch.softmax(scores, -1).masked_fill(hidden.all(1)[:, None], 0.0) @ v).transpose(1, 2)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_are_within_twice_pytorchs_error(flashcore: Any, shape: tuple[Any, ...], dtype: str) -> None:
    import torch

    causal = shape[-1]
    tensors = make(shape, getattr(torch, dtype), grad=True)
    out = flashcore.flash_attn_func(*tensors, causal=causal)
    dout = draw(*out.shape, dtype=out.dtype, seed=9)
    ours = torch.autograd.grad(out, tensors, dout)
    exact_inputs = [tensor.detach().double().requires_grad_() for tensor in tensors]
    exact = torch.autograd.grad(attend(*exact_inputs, causal=causal), exact_inputs, dout.double())
    theirs = torch.autograd.grad(attend(*tensors, causal=causal), tensors, dout)
    for name, gradient, other, right in zip("qkv", ours, theirs, exact, strict=True):
        assert torch.isfinite(gradient).all(), name
        error, limit = ((value.double() - right).norm() / right.norm() for value in (gradient, other))
        assert error <= LIMIT * limit + NOISE, f"d{name}: {error:.2e}, PyTorch {limit:.2e}"


def test_gradients_of_packed_sequences_are_those_of_each(flashcore: Any) -> None:
    import torch

    q, k, v = (tensor[0].detach().requires_grad_() for tensor in make(SHAPES[1]))
    starts = torch.tensor([0, 100, 100, 300], dtype=torch.int32, device="cuda")
    out = flashcore.flash_attn_varlen_func(q, k, v, starts, starts, 200, 200, causal=True)
    dout = draw(*out.shape, seed=9)
    packed = torch.autograd.grad(out, (q, k, v), dout)
    for start, end in ((0, 100), (100, 300)):
        part = [tensor.detach()[None, start:end].requires_grad_() for tensor in (q, k, v)]
        apart = torch.autograd.grad(flashcore.flash_attn_func(*part, causal=True), part, dout[None, start:end])
        for whole, single in zip(packed, apart, strict=True):
            torch.testing.assert_close(whole[start:end], single[0], rtol=2e-2, atol=2e-2)


def test_a_training_step_reaches_the_loss_of_sdpa(flashcore: Any) -> None:
    """One step of an attention layer with LLaMA's heads: 32 of queries, 8 of keys, d = 128."""
    import torch
    from torch.nn import functional

    losses = []
    x, target = draw(1, 512, 1024, seed=1), draw(1, 512, 1024, seed=2)
    for attention in (
        lambda q, k, v: flashcore.flash_attn_func(q, k, v, causal=True),
        lambda q, k, v: functional.scaled_dot_product_attention(
            *(tensor.transpose(1, 2) for tensor in (q, k.repeat_interleave(4, 2), v.repeat_interleave(4, 2))), is_causal=True
        ).transpose(1, 2),
    ):
        weights = [draw(n, m, seed=i, scale=m**-0.5, grad=True) for i, (n, m) in enumerate(((6144, 1024), (1024, 4096)))]
        for _ in range(2):
            q, k, v = functional.linear(x, weights[0]).unflatten(-1, (48, 128)).split((32, 8, 8), 2)
            loss = functional.mse_loss(functional.linear(attention(q, k, v).flatten(2), weights[1]).float(), target.float())
            gradients = torch.autograd.grad(loss, weights)
            weights = [(w - 5.0 * g).detach().requires_grad_() for w, g in zip(weights, gradients, strict=True)]
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


@pytest.mark.parametrize("name", ["page_table", "seqused_k"])
def test_what_has_no_gradient_is_refused_by_name(operators: Any, name: str) -> None:
    import torch

    value = {"page_table": torch.zeros(2, 5, dtype=torch.int32), "seqused_k": torch.ones(2, dtype=torch.int32)}[name]
    token, pool = draw(2, 1, 8, 128, grad=True), draw(2, 64, 2, 128)
    out, _ = operators.fwd(token, pool, pool, **{name: value.cuda()})
    with pytest.raises(NotImplementedError, match=f"^{name}: "):
        out.sum().backward()

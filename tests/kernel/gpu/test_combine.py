"""The merge of partial results on a GPU, compared with float64."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


def merge_exactly(partial: Any, lse_partial: Any) -> tuple[Any, Any]:
    lse = torch.logsumexp(lse_partial.double(), dim=0)
    weights = torch.exp(lse_partial.double() - lse).nan_to_num(0.0).unsqueeze(-1)
    return (weights * partial.double()).nan_to_num(0.0).sum(0), lse


@pytest.mark.parametrize("d", [1, 8, 59, 64, 96, 128, 192, 256, 512])
@pytest.mark.parametrize("splits", [1, 3, 17, 133, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_values(flashcore: ModuleType, d: int, splits: int, dtype: Any) -> None:
    partial = torch.randn(splits * 2, 2, 5, 37, d, device="cuda").transpose(2, 3)[:splits]
    lse_partial = torch.randn(splits, 2, 10, 37, device="cuda").mul_(3).transpose(2, 3)[..., :5]
    lse_partial[splits // 2 :, 0, :7] = -torch.inf
    partial[splits // 2 :, 0, :7] = torch.nan
    out, lse = flashcore.flash_attn_combine(partial, lse_partial, out_dtype=dtype)
    expected, expected_lse = merge_exactly(partial, lse_partial)
    assert (out.dtype, lse.shape, lse.stride(1)) == (dtype, expected_lse.shape, 1)
    limit = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=limit, atol=limit)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=2e-6, atol=2e-6)
    again, _ = flashcore.flash_attn_combine(partial, lse_partial, out_dtype=dtype)
    assert torch.equal(out, again)


def test_every_element_is_written_and_no_other(flashcore: ModuleType) -> None:
    partial, lse_partial = torch.randn(5, 2, 9, 3, 80, device="cuda"), torch.randn(5, 2, 9, 3, device="cuda")
    memory = torch.full((2, 9, 5, 96), 77.0, dtype=torch.float16, device="cuda")
    out, _ = flashcore.flash_attn_combine(partial, lse_partial, memory[:, :, :3, :80])
    torch.testing.assert_close(out.double(), merge_exactly(partial, lse_partial)[0], rtol=2e-3, atol=2e-3)
    assert bool((memory[:, :, 3:] == 77.0).all())
    assert bool((memory[..., 80:] == 77.0).all())


def test_splits_of_decode_merge_to_the_whole(flashcore: ModuleType) -> None:
    q = torch.randn(2, 4, 8, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(2, 1000, 2, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    parts = [
        flashcore.flash_attn_func(q, k[:, start : start + 300], v[:, start : start + 300], return_attn_probs=True)
        for start in range(0, 1000, 300)
    ]
    whole, whole_lse = flashcore.flash_attn_func(q, k, v, return_attn_probs=True)
    out, lse = flashcore.flash_attn_combine(
        torch.stack([out.float() for out, _ in parts]), torch.stack([lse.transpose(1, 2) for _, lse in parts])
    )
    torch.testing.assert_close(out, whole.float(), rtol=1.6e-2, atol=4e-3)
    torch.testing.assert_close(lse.transpose(1, 2), whole_lse, rtol=1e-5, atol=1e-5)

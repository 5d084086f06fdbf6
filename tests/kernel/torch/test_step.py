"""Steps of decode through a private operator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s


def make(operators: SimpleNamespace, *shape: int) -> Any:
    return operators.torch.randn(shape).to(operators.torch.float16)


@pytest.mark.parametrize("return_lse", [False, True])
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
def test_direct_calls_get_the_results_of_python(
    operators: SimpleNamespace, mode: str, append: bool, paged: bool, return_lse: bool
) -> None:
    torch, cached = operators.torch, operators.flashcore.flash_attn_with_kvcache
    options: dict[str, Any] = {"cache_seqlens": torch.ones(2, dtype=torch.int32), "causal": True, "softmax_scale": 0.5}
    if paged:
        options["page_table"] = torch.zeros(2, 1, dtype=torch.int32)
    with getattr(torch, mode)():
        for _ in range(4):
            q, k, v, new = (make(operators, 2, rows, 4, 64) for rows in (1, 64, 64, 1))
            if append:
                options |= {"k": new, "v": new}
            before = operators.kernels.standin_launches()
            result = cached(q, k, v, return_softmax_lse=return_lse, **options)
            assert operators.kernels.standin_launches() == before + 1
            out, lse = result if return_lse else (result, None)
            assert (out.shape, out.flatten()[0]) == (q.shape, v.flatten()[0])
            assert lse is None or (lse.shape == (2, 4, 1) and lse.flatten()[0] == 0.5)
            assert not append or k.flatten()[0] == new.flatten()[0]


def test_direct_calls_without_gradients_stay_out_of_python(operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from flashcore import _kvcache, _step

    torch, cached = operators.torch, operators.flashcore.flash_attn_with_kvcache
    q, k, lengths = make(operators, 3, 1, 4, 64), make(operators, 3, 64, 4, 64), torch.ones(3, dtype=torch.int32)
    with torch.no_grad():
        cached(q, k, k, cache_seqlens=lengths)
        for module in (_step, _kvcache):
            monkeypatch.setattr(module, "attend_to_cache", None)  # a call of Python would fail
        monkeypatch.setattr(_kvcache, "repeat_decode", None)
        assert cached(q, k, k, cache_seqlens=lengths).flatten()[0] == k.flatten()[0]


def test_direct_calls_keep_the_type_of_an_error(operators: SimpleNamespace) -> None:
    torch, cached = operators.torch, operators.flashcore.flash_attn_with_kvcache
    q, k, lengths = make(operators, 2, 1, 4, 64), make(operators, 2, 64, 4, 64), torch.ones(2, dtype=torch.int32)
    with torch.no_grad():
        for _ in range(3):
            with pytest.raises(ValueError, match=r"^lengths: must be contiguous torch.int32"):
                cached(q, k, k, cache_seqlens=lengths.long())
        operators.kernels.standin_refuse(1)
        try:
            with pytest.raises(ValueError, match=r"^k: refused by the stand-in$"):
                cached(q, k, k, cache_seqlens=lengths)
        finally:
            operators.kernels.standin_refuse(0)

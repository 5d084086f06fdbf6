"""The streaming kernel on a GPU, compared with PyTorch."""

from __future__ import annotations

from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("n", [1, 3, 4, 5, 4095, 4096, 4097, 1_000_003])
@pytest.mark.parametrize("max_ctas", [0, 1, 2])
def test_every_element_is_written_and_no_other(flashcore: ModuleType, n: int, max_ctas: int) -> None:
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    memory = torch.full((n + 64,), 77.0, device="cuda")
    flashcore.stream_axpy(2.0, x, y, out=memory[:n], max_ctas=max_ctas)
    torch.testing.assert_close(memory[:n], torch.add(y, x, alpha=2.0), rtol=1e-6, atol=1e-6)
    assert bool((memory[n:] == 77.0).all())


def test_an_unaligned_view_is_refused_by_name(flashcore: ModuleType) -> None:
    x = torch.randn(65, device="cuda")
    with pytest.raises(ValueError, match="x"):
        flashcore.stream_axpy(2.0, x[1:], x[:64])


def test_different_lengths_are_refused_by_name(flashcore: ModuleType) -> None:
    with pytest.raises(ValueError, match="y"):
        flashcore.stream_axpy(2.0, torch.randn(64, device="cuda"), torch.randn(63, device="cuda"))

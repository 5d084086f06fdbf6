import math

import pytest

torch = pytest.importorskip("torch")

from flashcore_ci.worker import tensors  # noqa: E402 - torch may be absent
from flashcore_ci.worker.redzones import REDZONE_BYTES, RedZones  # noqa: E402 - as above


def with_gaps():
    """Make a strided view into memory whose gaps hold NaN, as subjects do."""
    memory = torch.full((100,), math.nan)
    view = memory.as_strided((3, 4), (10, 2), 5)
    view.copy_(torch.arange(12.0).view(3, 4))
    return memory, view


def test_surrounded_tensors_stay_the_same():
    memory, view = with_gaps()
    inside = RedZones().surround({"v": view, "n": 3, "none": torch.empty(0)})
    assert torch.equal(inside["v"], view)
    assert (inside["v"].stride(), inside["n"]) == (view.stride(), 3)
    assert inside["v"].data_ptr() != view.data_ptr()
    whole = inside["v"].as_strided((100,), (1,), inside["v"].storage_offset() - 5)
    assert torch.equal(whole.isnan(), memory.isnan())


def test_views_of_one_memory_share_it_afterwards():
    memory, view = with_gaps()
    inside = RedZones().surround({"v": view, "w": memory[5:7]})
    inside["w"][0] = 77.0
    assert inside["v"][0, 0] == 77.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.uint8])
@pytest.mark.parametrize("where", [-1, 7])
def test_a_write_next_to_a_tensor_is_found_and_named(dtype, where):
    redzones = RedZones()
    inside = redzones.surround({"a": torch.zeros(4), "b": torch.zeros(7, dtype=dtype)})
    assert redzones.overwritten() == ""
    tensor = inside["b"]
    tensor.as_strided((1,), (1,), tensor.storage_offset() + where).zero_()
    assert redzones.overwritten() == "b"


def test_writes_inside_are_allowed():
    redzones = RedZones()
    redzones.surround({"a": torch.zeros(4)})["a"].fill_(3.0)
    assert redzones.overwritten() == ""
    assert REDZONE_BYTES % 512 == 0  # the alignment that CUDA gives


def test_without_tensors_nothing_is_overwritten():
    assert RedZones().overwritten() == ""


def test_the_mean_error_detects_missing_work():
    reference = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert tensors.mean_error(reference * 1.01, reference) == pytest.approx(0.01, rel=1e-3)
    assert tensors.mean_error(torch.zeros(1000), reference) == 1.0
    assert math.isnan(tensors.mean_error(torch.full((1000,), math.nan), reference))
    assert math.isnan(tensors.mean_error(reference[:10], reference))


def test_only_equal_infinities_have_no_error():
    reference = torch.tensor([1.0, -math.inf])
    assert tensors.mean_error(reference, reference) == 0
    assert tensors.mean_error(torch.tensor([1.0, 0.0]), reference) == math.inf

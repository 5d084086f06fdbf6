import math

import pytest

torch = pytest.importorskip("torch")

from flashcore_ci.worker import correctness, tensors  # noqa: E402 - torch may be absent

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", [0, 1])
def test_poison_is_not_a_number_and_differs_from_the_other(dtype, which):
    outputs = {"o": torch.zeros(5, 2, dtype=dtype)[:, :1]}
    tensors.poison(outputs, which)
    assert outputs["o"].isnan().all()
    assert tensors.still_poisoned(outputs["o"], which).all()
    assert not tensors.still_poisoned(outputs["o"], 1 - which).any()


def test_equal_infinities_do_not_differ_and_a_nan_is_the_worst():
    minus = -math.inf
    x = torch.tensor([[1.0, minus], [2.0, 3.0]])
    assert tensors.largest_difference(x, x).result().value == 0
    assert tensors.largest_difference(x, torch.tensor([[1.0, minus], [2.5, 3.0]])).result().index == (1, 0)
    assert tensors.largest_difference(x, torch.tensor([[1.0, math.inf], [2.0, 3.0]])).result().value == math.inf
    nan = tensors.largest_difference(x, torch.tensor([[9.0, minus], [2.0, math.nan]])).result()
    assert math.isnan(nan.value)
    assert nan.index == (1, 1)


def test_parts_do_not_change_the_answer(monkeypatch):
    x, y = torch.arange(100.0).reshape(10, 10), torch.arange(100.0).reshape(10, 10)
    y[7, 3] += 5
    monkeypatch.setattr(tensors, "PART", 7)
    difference = tensors.largest_difference(x, y).result()
    assert (difference.value, difference.index, difference.first, difference.second) == (5.0, (7, 3), 73.0, 78.0)


def test_nothing_differs_in_empty_outputs():
    assert tensors.largest_difference(torch.zeros(0, 4), torch.zeros(0, 4)).result().value == 0


def test_bad_values_are_not_finite_or_never_written():
    ours = torch.tensor([1.0, math.nan, -math.inf, math.inf, 2.0])
    reference = torch.tensor([1.0, 1.0, -math.inf, 1.0, 2.0])
    unwritten = torch.tensor([False, False, False, False, True])
    assert tensors.bad_values(ours, reference, unwritten).result() == 3


def test_upcast_leaves_whole_numbers_alone():
    upcast = tensors.upcast({"x": torch.zeros(2, dtype=torch.float16), "i": torch.zeros(2, dtype=torch.int32), "n": 3})
    assert (upcast["x"].dtype, upcast["i"].dtype, upcast["n"]) == (torch.float64, torch.int32, 3)


def test_rounding_ignores_infinities():
    assert tensors.rounding_error(torch.full((3,), -math.inf)).result() == 0
    assert 0 < tensors.rounding_error(torch.randn(1000, dtype=torch.float16)).result() < 2e-3


def compare(ours, low, exact):
    found = correctness._compare({"o": ours}, {"o": low}, {"o": exact}, {})
    return found["readings"]


def test_an_error_as_large_as_pytorchs_is_half_of_the_limit():
    exact = torch.zeros(4, dtype=torch.float64)
    low = torch.full((4,), 2.0**-10, dtype=torch.float16)
    assert compare(low, low, exact)["error/ratio"] <= 0.5
    assert compare(low * 8, low, exact)["error/ratio"] > 1


def test_a_nan_in_the_output_is_kept():
    zeros = torch.zeros(3)
    readings = compare(torch.tensor([0.0, math.nan, 0.0]), zeros, zeros.double())
    assert (readings["diff/max"], readings["error/ratio"]) == ("nan", "nan")


def test_an_error_where_none_is_allowed_is_infinite():
    zeros = torch.zeros(3)
    assert compare(zeros + 1e-3, zeros, zeros.double())["error/ratio"] == "inf"
    assert compare(zeros, zeros, zeros.double())["error/ratio"] == 0


def test_the_rms_error_is_relative_and_counts_all_elements():
    exact = torch.tensor([3.0, 4.0, -math.inf], dtype=torch.float64)
    readings = compare(exact + torch.tensor([0.3, 0.4, 0.0]), exact + torch.tensor([0.0, 1.0, 0.0]), exact)
    assert readings["error/rms"] == pytest.approx(0.1)
    assert readings["error/rms-ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(("ours", "low", "expected"), [
    ([1.0, math.nan], [1.0, 2.0], ("nan", "nan")),
    ([1.0, math.inf], [1.0, 2.5], ("inf", "inf")),
    ([1.0, 2.0], [1.0, math.inf], (0.0, "nan")),  # a reference that overflowed allows nothing
    ([1.0, 2.0], [1.0, 2.0], (0.0, 0.0)),
    ([1.0, 2.5], [1.0, 2.0], (pytest.approx(0.5 / math.sqrt(5)), "inf")),
])  # fmt: skip
def test_no_rms_error_passes_that_is_no_number(ours, low, expected):
    readings = compare(torch.tensor(ours), torch.tensor(low), torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert (readings["error/rms"], readings["error/rms-ratio"]) == expected


def test_the_worst_output_counts():
    zeros, ones = torch.zeros(2), torch.ones(2)
    first, low, exact = {"a": ones * 1.5, "b": ones}, {"a": ones * 2, "b": ones}, {"a": ones.double(), "b": ones.double()}
    readings = correctness._compare(first, low, exact, {})["readings"]
    assert (readings["error/rms"], readings["error/rms-ratio"]) == (0.5, 0.5)
    assert compare(zeros + 1e-3, zeros, zeros.double())["error/rms"] == "inf"


def test_other_names_or_shapes_are_refused():
    zeros = torch.zeros(3)
    with pytest.raises(ValueError, match="lse"):
        correctness._require_same_outputs({"o": zeros}, {"o": zeros, "lse": zeros}, "reference").result()
    with pytest.raises(ValueError, match="shape"):
        correctness._require_same_outputs({"o": zeros}, {"o": torch.zeros(1)}, "reference").result()


def test_a_reference_that_overflowed_allows_nothing():
    exact, garbage = torch.full((3,), 7e4, dtype=torch.float64), torch.full((3,), 1.0)
    assert compare(garbage, torch.full((3,), math.inf, dtype=torch.float16), exact)["error/ratio"] == "nan"


@pytest.mark.parametrize("reference", [torch.zeros(0), torch.full((3,), math.nan), torch.full((3,), -math.inf)])
def test_a_reference_without_a_finite_number_is_refused(reference):
    with pytest.raises(ValueError, match="no finite number"):
        correctness._require_same_outputs({"o": reference}, {"o": reference}, "reference").result()
    correctness._require_same_outputs(
        {"o": reference, "p": torch.zeros(1)}, {"o": reference, "p": torch.zeros(1)}, "reference"
    ).result()


def test_no_outputs_are_refused():
    with pytest.raises(ValueError, match="no finite number"):
        correctness._require_same_outputs({}, {}, "reference").result()


def test_complex_outputs_are_refused():
    whole = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(ValueError, match="real and imaginary"):
        correctness._require_same_outputs({"o": whole}, {"o": whole}, "reference").result()


def test_an_input_that_was_written_to_is_refused():
    x = torch.tensor([1.0, math.nan])
    tensors.refuse_changed({"x": x, "n": 3}, {"x": x.clone(), "n": 3})
    with pytest.raises(ValueError, match="input x changed"):
        tensors.refuse_changed({"x": x}, {"x": torch.tensor([1.0, 2.0])})


def test_errors_are_counted_by_powers_of_two(monkeypatch):
    monkeypatch.setattr(tensors, "PART", 3)  # parts do not change the answer
    exact = torch.zeros(9, dtype=torch.float64)
    ours = torch.tensor([0.0, 1.0, 1.5, 2.0, 2.0**-41, -(2.0**30), math.nan, math.inf, 0.75])
    histogram = tensors.error_histogram(ours, exact).result()
    assert {histogram["first"] + index: count for index, count in enumerate(histogram["counts"]) if count} == {
        -40: 1,  # the smallest holds what is smaller still
        -1: 1,
        0: 2,
        1: 1,
        7: 1,  # the last holds what is larger
    }
    assert (histogram["zeros"], histogram["not_finite"]) == (1, 2)
    assert len(histogram["counts"]) == tensors.POWERS


def test_equal_infinities_and_empty_tensors_have_no_errors():
    assert tensors.error_histogram(torch.tensor([math.inf]), torch.tensor([math.inf])).result()["zeros"] == 1
    assert sum(tensors.error_histogram(torch.zeros(0), torch.zeros(0)).result()["counts"]) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_is_counted_once_for_the_kernel_and_for_pytorch(dtype):
    outputs = {name: torch.randn(7, 5).to(dtype) for name in "abcdef"}
    exact = {name: torch.randn(7, 5, dtype=torch.float64) for name in outputs}
    histograms = correctness._compare(outputs, outputs, exact, {})["histograms"]
    assert list(histograms) == [f"error/{side}/{name}" for name in "abcd" for side in ("ours", "pytorch")]
    for histogram in histograms.values():
        assert sum(histogram["counts"]) + histogram["zeros"] + histogram["not_finite"] == 35


class Drifting:
    """A subject whose third and fifth launches write something else, and one element never."""

    def __init__(self):
        self.launches = 0

    def outputs(self, inputs):
        return {"o": torch.zeros(4), "lse": torch.zeros(2)}

    def run(self, inputs, outputs):
        self.launches += 1
        outputs["o"][:3] = inputs["x"]
        outputs["lse"].fill_(float(self.launches in {3, 5}))


def test_launches_are_compared_without_a_wait_of_their_own(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append("launch"))
    monkeypatch.setattr(correctness, "_hold", lambda: lambda _: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    monkeypatch.setattr(torch, "equal", lambda *_: waits.append("comparison"))
    launches = correctness._launch_repeatedly(Drifting(), {"x": torch.tensor(2.0)}, 6)
    assert waits == ["launch"] * 3, "the first, and two on a held stream"
    assert launches.differing.result() == 5, (
        "the element that is never written holds the other poison in half of them, and two more differ"
    )
    assert launches.unwritten["o"].tolist() == [False, False, False, True]
    assert launches.unwritten["lse"].tolist() == [False, False]


def test_only_launches_that_differ_are_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(correctness, "_hold", lambda: lambda _: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    whole = Drifting()
    whole.outputs = lambda _: {"o": torch.zeros(3), "lse": torch.zeros(2)}
    assert correctness._launch_repeatedly(whole, {"x": torch.tensor(2.0)}, 6).differing.result() == 2


def test_only_the_reference_is_computed_without_cudnn():
    class Subject:
        def reference(self, inputs):
            return {"cudnn": torch.backends.cuda.cudnn_sdp_enabled()}

    assert torch.backends.cuda.cudnn_sdp_enabled()
    assert correctness._reference(Subject(), {}) == {"cudnn": False}
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_the_host_waits_once_for_all_numbers(monkeypatch):
    waits = []
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: waits.append(tensor.shape) or tolist(tensor))
    for name in ("item", "__bool__", "__int__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, lambda _tensor: pytest.fail("a tensor was read alone"))
    outputs = {name: torch.randn(3, 4) for name in ("out", "lse")}
    exact = {name: tensor.double() for name, tensor in outputs.items()}
    counts = {"finite/bad-values": [tensors.bad_values(tensor, tensor, tensor.isnan()) for tensor in outputs.values()]}
    check = correctness._require_same_outputs(outputs, exact, "reference")
    found = correctness._compare(outputs, outputs, exact, counts, [check])["readings"]
    assert len(waits) == 1
    assert found["finite/bad-values"] == 0


def test_results_are_read_in_order_and_by_their_own_numbers():
    pending = {name: tensors.Pending(torch.full((size,), float(size)), tuple) for name, size in (("a", 2), ("b", 0), ("c", 1))}
    assert tensors.read_all(pending) == {"a": (2.0, 2.0), "b": (), "c": (1.0,)}
    assert tensors.read_all({}) == {}


def test_parts_of_a_sum_are_added_in_order(monkeypatch):
    x, y = torch.randn(100, dtype=torch.float64), torch.randn(100, dtype=torch.float64)
    whole = tensors.rms_error(x, y).result()
    monkeypatch.setattr(tensors, "PART", 7)
    assert tensors.rms_error(x, y).result() == pytest.approx(whole, rel=1e-14)


def test_an_input_of_another_shape_or_type_is_refused():
    for other in (torch.zeros(3), torch.zeros(2, dtype=torch.float64)):
        with pytest.raises(ValueError, match="input x changed"):
            tensors.refuse_changed({"x": torch.zeros(2)}, {"x": other})


def test_a_hold_ends_with_a_turn_of_this_process_on_the_gpu(monkeypatch):
    """The host's 10 ms may be over before this process has the GPU: work on another stream then came after the poison, and passed."""
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(correctness, "_hold", lambda: lambda _: order.append("host"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: order.append("GPU"))
    monkeypatch.setattr(correctness.tensors, "poison", lambda *_: order.append("poison"))
    outputs = {"o": torch.zeros(3), "lse": torch.zeros(2)}
    correctness._run(Drifting(), {"x": torch.tensor(2.0)}, outputs, 0, late=True)
    assert order == ["host", "GPU", "poison"]

"""The subject of gates/fp8.toml on the CPU: an exact kernel passes, a wrong one does not."""

from __future__ import annotations

import importlib.util
import math
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flashcore_ci.worker import audits, correctness, tensors  # noqa: E402 - torch may be absent

pytestmark = pytest.mark.nightly  # torch is 200 MB
ROOT = Path(__file__).parents[3]
NEEDLES = {"h": 2, "sq": 32, "sk": 2048, "input": "needles"}
ORIGINAL = {"b": 1, "h": 16, "sq": 32, "sk": 1024, "against": "original"}


def attend(q: Any, k: Any, v: Any, *, out: Any, lse: Any, lost: float, **scales: Any) -> Any:
    """Compute attention of E4M3 bytes exactly, and lose a part of each output."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (
        (x.view(torch.float8_e4m3fn).float() * scales[f"{name}_scale"].repeat_interleave(x.shape[2] // k.shape[2], dim=1)[:, None, :, None])
        for name, x in zip("qkv", (q, k, v), strict=True)
    )  # fmt: skip
    k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    result = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, dim=-1), v)
    result = result * (1.0 - lost)
    if out is not None:
        out.copy_(result)
    if lse is not None:
        lse.copy_(torch.logsumexp(scores, dim=-1))
    return result.bfloat16()


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("accuracy", ROOT / "kernel/subjects/e4m3_accuracy.py")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    for module in (subject, subject.e4m3, subject.e4m3.fp8):
        monkeypatch.setattr(module, "DEVICE", "cpu")
    monkeypatch.setattr(subject.e4m3, "load", lambda _: None)
    subject.load(Path("library.so"))
    flashcore = ModuleType("flashcore")
    monkeypatch.setitem(sys.modules, "flashcore", flashcore)

    def readings(lost: float = 0.0, **params: Any) -> dict[str, Any]:
        flashcore.attention_e4m3 = lambda *qkv, max_ctas, **rest: attend(*qkv, lost=lost, **rest)
        inputs = subject.inputs(params, 0)
        outputs = subject.outputs(inputs)
        subject.run(inputs, outputs)
        tensors.refuse_changed(inputs, subject.inputs(params, 0))
        low, exact = subject.reference(inputs), subject.reference(tensors.upcast(inputs))
        correctness._require_same_outputs(outputs, low, "reference")
        return correctness._compare(outputs, low, exact, {})["readings"]

    return readings


def test_a_kernel_with_exact_sums_finds_all_needles(measure: Any) -> None:
    assert measure(**NEEDLES)["diff/max"] == 0


def test_a_kernel_that_loses_sums_loses_needles(measure: Any) -> None:
    assert measure(0.4, **NEEDLES)["diff/max"] > 0.05 * 64


def test_an_instrument_is_right_only_if_it_loses_five_per_cent(measure: Any) -> None:
    assert measure(planted=True, **NEEDLES)["diff/max"] == 4  # of 64, rounded up
    assert measure(0.4, planted=True, **NEEDLES)["diff/max"] == 0


@pytest.mark.parametrize("params", [
    {"input": "normal"}, {"input": "outlier", "size": 16}, {"input": "ones"}, {"input": "equal"}, {"input": "rise", "size": 8.9},
    {"input": "rise", "size": -7.9}, {"input": "peak", "size": 0.0}, {"input": "peak", "size": 1.0},
], ids=lambda params: "".join(map(str, params.values())))  # fmt: skip
def test_hostile_inputs_pass_with_exact_sums_only(measure: Any, params: dict[str, Any]) -> None:
    shape = {"h": 2, "hkv": 1, "sq": 32, "sk": 500}
    assert measure(**params, **shape)["error/ratio"] <= 1
    assert measure(0.4, **params, **shape)["error/ratio"] > 1


def test_the_rise_is_exact_after_rounding() -> None:
    """The last channels are noise. The others give each tile one step."""
    from importlib.machinery import SourceFileLoader

    hostile = ModuleType("hostile")
    SourceFileLoader("hostile", str(ROOT / "kernel/subjects/hostile.py")).exec_module(hostile)
    params = {"b": 1, "h": 1, "hkv": 1, "sq": 2, "sk": 500, "size": 7.9}
    q, k, _ = hostile.INPUTS["rise"](params, torch.Generator().manual_seed(0))
    scores = (q[0, :, 0, :120] @ k[0, :, 0, :120].T) / math.sqrt(128) / math.log(2)
    steps = scores[0, ::128].diff()
    assert steps == pytest.approx([-7.9] * 3, rel=1e-5)
    assert set(k[..., :120].unique().tolist()) == {0.0, 1.0}


def test_a_transform_makes_an_outlier_harmless(measure: Any) -> None:
    outlier = {"input": "outlier", "size": 16, **ORIGINAL}
    assert measure(transform=True, **outlier)["error/rms-ratio"] <= 0.3
    assert measure(**outlier)["error/rms-ratio"] > 0.6
    assert measure(input="normal", **ORIGINAL)["error/rms-ratio"] <= 1.05


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Audit what a scheme of the study computes from the inputs of a timed row of E4M3."""
    from importlib.machinery import SourceFileLoader

    subject, study = ModuleType("e4m3"), ModuleType("study")
    vars(subject)["__file__"] = str(ROOT / "kernel/subjects/e4m3.py")
    SourceFileLoader("e4m3", str(ROOT / "kernel/subjects/e4m3.py")).exec_module(subject)
    monkeypatch.setitem(sys.modules, "study", study)
    SourceFileLoader("study", str(ROOT / "tools/study/fp8_attention.py")).exec_module(study)
    for module in (subject, subject.fp8):
        monkeypatch.setattr(module, "DEVICE", "cpu")

    def run(kind: str, scheme: str, *, seed: int = 0) -> tuple[bool, float]:
        params = {"b": 1, "h": 1, "sq": 8, "sk": 8192, "input": kind}
        inputs, computed = subject.inputs(params, 0), subject.inputs(params, seed)
        q, k, v = ((subject.fp8.to_float(computed[x]) * computed[f"{x}_scale"])[0, :, 0].double().numpy() for x in "qkv")
        scores = q @ k.T * study.LOG2E / math.sqrt(128)
        out = 0 * q if scheme == "zeros" else study.attend(scores, v, getattr(study, scheme))[0]
        exact = subject.reference(tensors.upcast(inputs))
        outputs = {"out": torch.tensor(out)[None, :, None].bfloat16(), "lse": exact["lse"].float()}
        return audits.is_far_off(subject, inputs, outputs), tensors.mean_error(outputs["out"], exact["out"])

    return run


def test_a_timed_launch_is_as_far_off_as_rounding_makes_it(audited: Any) -> None:
    far, error = audited("normal", "OURS")
    assert not far
    assert error > audits.MAX_MEAN_ERROR  # so 2 % alone would refuse the right kernel
    assert not audited("ones", "OURS")[0]


@pytest.mark.parametrize(
    ("kind", "scheme", "seed"), [("ones", "FA3", 0), ("ones", "zeros", 0), ("normal", "zeros", 0), ("normal", "OURS", 1)]
)
def test_a_wrong_timed_launch_is_far_off(audited: Any, kind: str, scheme: str, seed: int) -> None:
    """One level of accumulation, nothing, and the output of earlier inputs."""
    assert audited(kind, scheme, seed=seed)[0]


@pytest.mark.parametrize("defect", ["e4m3-scale-twice", "fp8-scale-twice"])
def test_a_planted_factor_shows(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    """Its row must have factors other than 1."""
    from importlib.machinery import SourceFileLoader

    table = tomllib.loads((ROOT / "gates/defects.toml").read_text(encoding="utf-8"))
    row = next(row for row in table["workload"] if defect in row.get("each", {}).get("defect", ()))
    scales = ModuleType("fp8")
    SourceFileLoader("fp8", str(ROOT / "kernel/subjects/fp8.py")).exec_module(scales)
    monkeypatch.setattr(scales, "DEVICE", "cpu")
    factors = scales.make_scale({**row["params"], "hkv": row["params"].get("hkv", row["params"]["h"])}, 2)  # of values
    assert (factors != 1).float().mean() >= 0.5


def test_the_reference_of_the_quantising_kernels_transforms() -> None:
    spec = importlib.util.spec_from_file_location("quantised", ROOT / "kernel/subjects/e4m3_quantised.py")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    matrix = subject.transform(torch.eye(128)).double()
    assert (matrix @ matrix.T).numpy() == pytest.approx(torch.eye(128).double().numpy(), abs=1e-6)
    q, k, v = (torch.randn(1, 5, 2, 128).bfloat16() for _ in "qkv")
    rounded = subject.reference({"q": q, "k": k, "v": v, "part": "quantise", "transform": True})
    read = rounded["q"].view(torch.float8_e4m3fn).double() * rounded["q_scale"][0, :, None].double()
    assert (read @ matrix.T - q.double()).abs().mean() < 0.1 * q.double().abs().mean()


def test_the_reference_transforms_in_the_order_of_the_kernels() -> None:
    """Walk through quantise/quantise.cuh lane by lane: 4 columns in a lane, then 5 exchanges of lanes."""
    spec = importlib.util.spec_from_file_location("quantised", ROOT / "kernel/subjects/e4m3_quantised.py")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    row = torch.randn(128) * torch.logspace(-3, 3, 128)
    signs = [-1.0 if subject.SIGNS[lane // 8] >> (lane % 8 * 4) >> j & 1 else 1.0 for lane in range(32) for j in range(4)]
    x = (row * torch.tensor(signs)).view(32, 4)
    sums = x[:, 0] + x[:, 1], x[:, 0] - x[:, 1], x[:, 2] + x[:, 3], x[:, 2] - x[:, 3]
    x = torch.stack([sums[0] + sums[2], sums[1] + sums[3], sums[0] - sums[2], sums[1] - sums[3]], dim=1)
    for step in (1, 2, 4, 8, 16):
        other = x[torch.arange(32) ^ step]
        x = torch.where((torch.arange(32) & step != 0)[:, None], other - x, x + other)
    assert torch.equal(subject.transform(row), (x * 0.08838834764831845).view(128))


def test_scales_are_divided_by_a_tensor() -> None:
    """On a GPU PyTorch divides a tensor by a number as a product with its reciprocal, which differs from the kernels by a last bit."""
    divisors = []

    class Recorded(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") in {"div", "true_divide", "__truediv__", "divide"}:
                divisors.append(args[1])
            return function(*args, **(kwargs or {}))

    spec = importlib.util.spec_from_file_location("accuracy", ROOT / "kernel/subjects/e4m3_accuracy.py")
    accuracy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(accuracy)
    largest = torch.tensor([[3.0, 0.0], [448.0, 1e-34]])
    with Recorded():
        scale = accuracy.scale_of(largest)
    assert [type(divisor) for divisor in divisors] == [torch.Tensor]
    assert scale.tolist() == torch.tensor([[3.0 / 448, 1e-30], [1.0, 1e-30]]).tolist()

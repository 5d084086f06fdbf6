"""The subject of attention in E4M3 with packed sequences, on the CPU, over an exact stand-in for the kernel."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flashcore_ci.worker import correctness, tensors

torch = pytest.importorskip("torch", reason="install torch, for example torch==2.13.0+cpu")

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[3]
EDGES = {"b": 10, "h": 4, "hkv": 2, "sq": 300, "sk": 700, "d": 64, "lengths": "edges"}
RAGGED = {"b": 6, "h": 2, "hkv": 2, "sq": 256, "sk": 512, "d": 128, "lengths": "ragged"}


def attend_packed(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *, causal: bool, out: Any, lse: Any, max_ctas: int, shift: int, **scales: Any
) -> None:  # fmt: skip
    """Compute attention of every sequence exactly. ``shift``: with the factors of the keys of a later sequence."""
    assert max_ctas == 0
    group, batch = q.shape[1] // k.shape[1], len(starts_q) - 1
    for i, ((row, last_row), (key, last_key)) in enumerate(
        zip(*(itertools.pairwise(starts.tolist()) for starts in (starts_q, starts_k)), strict=True)
    ):
        rows = {"q": (q, row, last_row), "k": (k, key, last_key), "v": (v, key, last_key)}
        factors = {name: scales[f"{name}_scale"][(i + shift * (name == "k")) % batch] for name in "qkv"}
        query, keys, values = (
            x[a:b].view(torch.float8_e4m3fn).float() * factors[name].repeat_interleave(x.shape[1] // k.shape[1])[None, :, None]
            for name, (x, a, b) in rows.items()
        )
        keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query, keys) / math.sqrt(q.shape[-1])
        if causal:
            hidden = torch.arange(last_key - key) > torch.arange(last_row - row)[:, None] + (last_key - key) - (last_row - row)
            scores = scores.masked_fill(hidden, -math.inf)
        out[row:last_row] = torch.einsum("hqk,khd->qhd", torch.softmax(scores, dim=-1).nan_to_num(0), values)
        lse[:, row:last_row] = torch.logsumexp(scores, dim=-1)


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("e4m3", ROOT / "kernel/subjects/e4m3.py")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    for module in (subject, subject.fp8):
        monkeypatch.setattr(module, "DEVICE", "cpu")
    flashcore = ModuleType("flashcore")
    monkeypatch.setitem(sys.modules, "flashcore", flashcore)

    def readings(shift: int = 0, **params: Any) -> dict[str, Any]:
        flashcore.attention_e4m3_varlen = lambda *given, **rest: attend_packed(*given, shift=shift, **rest)
        params = {**params, "input": "normal"}
        inputs = subject.inputs(params, 0)
        outputs = subject.outputs(inputs)
        subject.run(inputs, outputs)
        tensors.refuse_changed(inputs, subject.inputs(params, 0))
        low, exact = subject.reference(inputs), subject.reference(tensors.upcast(inputs))
        correctness._require_same_outputs(outputs, low, "reference")
        return correctness._compare(outputs, low, exact, {})["readings"]

    return readings


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("params", [EDGES, RAGGED], ids=["edges", "ragged"])
def test_an_exact_kernel_passes(measure: Any, params: dict[str, Any], *, causal: bool) -> None:
    assert measure(**params, causal=causal)["error/ratio"] <= 1


def test_the_factors_of_another_sequence_fail(measure: Any) -> None:
    assert measure(1, **EDGES)["error/ratio"] > 2

"""The subject of batch invariance over arithmetic in the place of the kernels: sound ways agree, and each planted defect fails its gate."""

from __future__ import annotations

import math
import operator
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import correctness, tensors

pytestmark = pytest.mark.nightly

KERNEL = Path(__file__).parents[3] / "kernel"
PARAMS: dict[str, Any] = {"dtype": "fp16", "h": 2, "hkv": 1, "sq": 530, "d": 16, "input": "normal"}
LAUNCHES = 14


def attend(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Compute one sequence, row by row, so that no sum depends on the others."""
    import torch

    rows, keys, group = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (tensor.double().repeat_interleave(group, 1) for tensor in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) / math.sqrt(q.shape[-1])
    scores.masked_fill_(torch.arange(keys) > torch.arange(rows)[:, None] + keys - rows, -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).to(q.dtype), scores.logsumexp(-1).float()


def attend_varlen(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any = None, **options: Any) -> tuple[Any, Any]:
    import torch

    results = []
    for i in range(len(starts_q) - 1):
        rows = slice(int(starts_q[i]), int(starts_q[i + 1]))
        if starts_k is None:
            keys = [pool[options["page_table"][i].long()].flatten(0, 1)[: int(options["seqused_k"][i])] for pool in (k, v)]
        else:
            keys = [tensor[int(starts_k[i]) : int(starts_k[i + 1])] for tensor in (k, v)]
        results.append(attend(q[rows], *keys))
    out, lse = zip(*results, strict=True)
    return torch.cat(out), torch.cat(lse, 1)


def attend_equally(q: Any, k: Any, v: Any, **_options: Any) -> tuple[Any, Any]:
    import torch

    out, lse = zip(*(attend(*rows) for rows in zip(q, k, v, strict=True)), strict=True)
    return torch.stack(out), torch.stack(lse)


def attend_as_flashattention(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *_longest: int, **options: Any
) -> tuple[Any, Any]:
    assert options.pop("sm_margin") > 0
    assert options == {"causal": True, "return_attn_probs": True}
    return attend_varlen(q, k, v, starts_q, starts_k)


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch")
    kernels = SimpleNamespace(
        attention_varlen=attend_varlen, attention=attend_equally, flash_attn_varlen_func=attend_as_flashattention
    )
    monkeypatch.setitem(sys.modules, "flashcore", kernels)
    module = ModuleType("invariance_defects")
    module.__file__ = str(KERNEL / "defects/invariance.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    module.sound.attention.DEVICE = "cpu"
    monkeypatch.setattr(module.sound, "attend_in_a_graph", module.sound.attend)
    module._whole["attend_in_a_graph"] = module.sound.attend
    return module


def measure(subject: Any, way: str, defect: str, **change: Any) -> dict[str, float]:
    """Compute the readings that the gates judge, as the worker does on a GPU. Rounded exact results take the place of PyTorch's."""
    import torch

    inputs = subject.inputs({**PARAMS, **change, "way": way, "defect": defect}, 0)
    kept: list[dict[str, Any]] = []
    holes: list[dict[str, Any]] = []
    for launch in range(LAUNCHES):
        outputs = subject.outputs(inputs)
        tensors.poison(outputs, launch % 2)
        subject.run(inputs, outputs)
        holes.append({name: tensors.still_poisoned(tensor, launch % 2) for name, tensor in outputs.items()})
        kept.append(outputs)
    exact = subject.reference(tensors.upcast(inputs))
    first, low = kept[0], {name: exact[name].to(tensor.dtype) for name, tensor in kept[0].items()}
    unwritten = {name: holes[1][name] & (holes[0][name] | holes[2][name]) for name in first}
    return {
        "diff/max": max(tensors.largest_difference(first[name], low[name]).result().value for name in first),
        "error/ratio": max(correctness.error_of(name, first[name], low[name], exact[name]).result().ratio for name in first),
        "finite/bad-values": sum(tensors.bad_values(first[name], low[name], unwritten[name]).result() for name in first),
        "repeat/differing-runs": int(torch.stack([tensors.differ(first, outputs) for outputs in kept]).sum()),
    }


def list_failing(readings: dict[str, float]) -> set[str]:
    """Name the gates of gates/invariance.toml that these readings fail, with the limits that ship."""
    gates = tomllib.loads((KERNEL.parent / "gates/invariance.toml").read_text(encoding="utf-8"))["gate"]
    compare = {"<": operator.lt, "<=": operator.le, "==": operator.eq}
    measured = [gate for gate in gates if gate["evidence"] == "correctness"]
    assert {gate["metric"] for gate in measured} == set(readings)
    return {gate["id"] for gate in measured if not compare[gate["rule"]](readings[gate["metric"]], gate["limits"][-1]["value"])}


@pytest.mark.parametrize("way", ["batch", "pages", "pieces", "graph", "margin"])
def test_a_defect_of_each_way_shows_in_the_bits_alone(subject: Any, way: str) -> None:
    assert list_failing(measure(subject, way, "sound")) == set()
    readings = measure(subject, way, way)
    assert list_failing(readings) == {"same-bits"}
    assert readings["repeat/differing-runs"] >= LAUNCHES // 4


@pytest.mark.parametrize(
    ("way", "defect", "gates"),
    [
        ("batch", "first-value-lost", {"max-diff", "error-ratio"}),
        ("pages", "rounded-lse", {"error-ratio"}),
        ("pieces", "unwritten-row", {"max-diff", "error-ratio", "finite", "same-bits"}),
    ],
)
def test_a_defect_of_every_launch_shows_in_another_gate(subject: Any, way: str, defect: str, gates: set[str]) -> None:
    """An unwritten row holds other poison in every launch, so its bits differ too. Only ``finite`` names the cause."""
    readings = measure(subject, way, defect)
    assert list_failing(readings) == gates
    if defect == "unwritten-row":
        assert readings["finite/bad-values"] == PARAMS["h"] * PARAMS["d"]


def test_the_suite_runs_each_defect_and_the_self_test_names_its_gate(subject: Any) -> None:
    suite, listed = (
        tomllib.loads((KERNEL.parent / f"gates/invariance-{name}.toml").read_text(encoding="utf-8"))
        for name in ("defects", "selftest")
    )
    cases = {case["defect"]: f"{case['way']}-{case['defect']}" for case in suite["workload"][0]["cases"]}
    assert set(cases) == {*subject.DEFECTS, *subject.ALIKE}
    gates = {row["target"]: row["gate"] for row in listed["defect"]}
    assert {cases[defect] for defect in cases if defect != "sound"} == set(gates) - {"broken"}
    assert {gates[cases[defect]] for defect in subject.ALIKE} == {"max-diff", "error-ratio", "finite"}
    assert {gates[cases[way]] for way in subject.sound.WAYS} == {"same-bits"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"way": "all"}, "^way: must be one of batch, pages, pieces, graph"),
        ({"causal": False, "way": "batch"}, "^causal: unknown"),
    ],
)
def test_parameters_are_checked(subject: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        subject.sound.problem({**PARAMS, **change})

"""The subject of batch invariance over arithmetic in the place of the kernels: sound ways agree, and each planted defect shows."""

from __future__ import annotations

import math
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly

KERNEL = Path(__file__).parents[3] / "kernel"
PARAMS = {"dtype": "fp16", "h": 2, "hkv": 1, "sq": 530, "d": 16, "input": "normal"}
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


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch")
    kernels = SimpleNamespace(attention_varlen=attend_varlen, attention=attend_equally)
    monkeypatch.setitem(sys.modules, "flashcore", kernels)
    module = ModuleType("invariance_defects")
    module.__file__ = str(KERNEL / "defects/invariance.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    module.sound.attention.DEVICE = "cpu"
    monkeypatch.setattr(module.sound, "attend_in_a_graph", module.sound.attend)
    module._whole["attend_in_a_graph"] = module.sound.attend
    return module


def count_differing(subject: Any, way: str, defect: str) -> int:
    """Count the launches whose bits are not the first one's, as the worker does."""
    import torch

    inputs = subject.inputs({**PARAMS, "way": way, "defect": defect}, 0)
    kept: list[dict[str, Any]] = []
    for _ in range(LAUNCHES):
        outputs = subject.outputs(inputs)
        subject.run(inputs, outputs)
        kept.append(outputs)
    exact = {n: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for n, t in inputs.items()}
    whole = subject.reference(exact)
    assert (kept[0]["out"] - whole["out"]).abs().max() < 2e-3
    return sum(not all(torch.equal(outputs[name], kept[0][name]) for name in outputs) for outputs in kept)


@pytest.mark.parametrize("way", ["batch", "pages", "pieces", "graph"])
def test_a_defect_of_each_way_shows_and_the_sound_one_does_not(subject: Any, way: str) -> None:
    assert count_differing(subject, way, "sound") == 0
    assert count_differing(subject, way, way) >= LAUNCHES // 4


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

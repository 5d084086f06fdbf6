"""Rows of the suites that call FlashAttention-3's function over caches, on stand-ins for the kernels: right, and wrong with an edit."""

from __future__ import annotations

import math
import tomllib
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flashcore_ci.worker.tensors import upcast

pytestmark = pytest.mark.nightly  # torch is 200 MB

ROOT = Path(__file__).parents[3]
KINDS = ("flash-used", "flash-padded", *(f"flash-kvcache-{kind}" for kind in ("rotary", "index", "padded")))


def read(suite: str) -> list[dict[str, Any]]:
    """List the tables of workloads."""
    tables: list[dict[str, Any]] = tomllib.loads((ROOT / f"gates/{suite}.toml").read_text(encoding="utf-8"))["workload"]
    return tables


ROWS = [
    (table["subject"], {**table["params"], **case})
    for table in read("hopper")
    if table["id"].startswith(KINDS)
    for case in table.get("cases", [{}])
]
SEED, TOLERANCE = 1, 2e-2


def load_file(name: str) -> Any:
    module = ModuleType(f"rows_{Path(name).stem}")
    module.__file__ = str(ROOT / "kernel" / name)
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


edits = load_file("defects/edits.py")
PLANTED = {
    defect: table["params"]
    for table in read("feature-defects")
    for defect in table.get("each", {}).get("defect", [])
    if defect in edits.EDITS
}


class Kernels:
    """Stand-ins for decode and for attention of packed sequences, by the formula of the subjects."""

    def __init__(self, local: Any) -> None:
        self.local = local

    def attend(self, q: Any, k: Any, v: Any, causal: bool, limits: Any) -> tuple[Any, Any]:
        (left, right), chunk, softcap = limits
        rules = {"left": left, "right": right, "chunk": chunk, "softcap": softcap, "causal": causal}
        out, lse = self.local.compute_rows(q, k, v, rules)
        return out.to(q.dtype), lse.float()

    def decode(self, tensors: Any, options: Any, *, return_lse: bool) -> Any:
        import torch

        q, k_cache, v_cache, k, v, _, lengths, table, *_ = tensors
        results = []
        for i, length in enumerate(lengths.tolist()):
            rows = []
            for cache, new in ((k_cache, k), (v_cache, v)):
                end = length + (0 if new is None else new.shape[1])
                place = torch.arange(end)
                page = (
                    (torch.full_like(place, i), place)
                    if table is None
                    else (table[i].long()[place // cache.shape[1]], place % cache.shape[1])
                )
                if new is not None:
                    cache[page[0][length:], page[1][length:]] = new[i]
                rows.append(cache[page])
            results.append(self.attend(q[i], *rows, options[0], options[-1]))
        out, lse = (torch.stack(list(each)) for each in zip(*results, strict=True))
        return (out, lse) if return_lse else out

    def packed(self, q: Any, k: Any, v: Any, starts: Any, starts_k: Any = None, **options: Any) -> Any:
        import torch

        table, used, used_q = (
            options.get("page_table"),
            options.get("seqused_k", options.get("lengths")),
            options.get("seqused_q"),
        )
        out, lse = torch.zeros_like(q), torch.full((q.shape[1], len(q)), -math.inf)
        limits = (options.get("window") or (-1, -1), options.get("chunk", 0), options.get("softcap", 0.0))
        for i, (start, end) in enumerate(pairwise(starts.tolist())):
            rows = slice(start, end if used_q is None else start + int(used_q[i]))
            if table is not None:
                place = torch.arange(int(used[i]))
                keys, values = (x[table[i].long()[place // x.shape[1]], place % x.shape[1]] for x in (k, v))
            else:
                count = int(starts_k[i + 1] - starts_k[i]) if used is None else int(used[i])
                keys, values = (x[starts_k[i] : starts_k[i] + count] for x in (k, v))
            out[rows], lse[:, rows] = self.attend(q[rows], keys, values, options["causal"], limits)
        return (out, lse) if options.get("return_lse") else out


def measure(operators: Any, monkeypatch: pytest.MonkeyPatch, name: str, params: dict[str, Any]) -> float:
    """Return the largest error of a row's outputs, NaN and infinity included."""
    import torch
    from flashcore import _cache, _flash, _packed

    subject = load_file(f"subjects/{name}.py")
    subject.DEVICE = "cpu"
    kernels = Kernels(subject.local)
    monkeypatch.setattr(_cache, "launch_decode", kernels.decode)
    for module, function in (
        (_cache, "attention_varlen"),
        (_cache, "decode_varlen"),
        (_packed, "attention_varlen"),
        (_flash, "attention_varlen"),
    ):
        monkeypatch.setattr(module, function, kernels.packed)
    inputs, fresh = (subject.inputs(params, SEED) for _ in range(2))
    outputs = subject.outputs(inputs)
    subject.run(inputs, outputs)
    worst = 0.0
    for key, expected in subject.reference(upcast(fresh)).items():
        found = outputs[key].double()
        difference = torch.where(found == expected.double(), 0.0, (found - expected.double()).abs())
        worst = max(worst, float(difference.nan_to_num(math.inf, math.inf).max()))
    return worst


@pytest.mark.parametrize(("subject", "params"), ROWS)
def test_a_row_equals_its_reference(
    operators: Any, monkeypatch: pytest.MonkeyPatch, subject: str, params: dict[str, Any]
) -> None:
    assert measure(operators, monkeypatch, subject, params) < TOLERANCE


@pytest.mark.parametrize("defect", edits.EDITS)
def test_a_planted_row_is_wrong_with_its_edit_only(operators: Any, monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    assert measure(operators, monkeypatch, "decode", PLANTED[defect]) < TOLERANCE
    with edits.edit(defect):
        assert measure(operators, monkeypatch, "decode", PLANTED[defect]) > 10 * TOLERANCE

"""Edits of kernel/defects/edits.py on the CPU: each gives wrong results where the package without it gives right ones."""

from __future__ import annotations

import importlib.util
import linecache
import math
from pathlib import Path
from typing import Any

import pytest

from flashcore_ci.worker import file_reads

pytestmark = pytest.mark.nightly  # torch is 200 MB

ROOT = Path(__file__).parents[3]
CACHED, QUERIES, CAPACITY, HEADS, HEAD_DIM = 5, 20, 80, 2, 64
LENGTHS, PADDING, INDEX = (30, 41, 50), (3, 11, 7), (4, 0, 2)
TOLERANCE = 1e-4
FEATURES = {"left-padding": "padding", "batch-index": "index", "rotary": "rotary"}


def load_defects() -> Any:
    spec = importlib.util.spec_from_file_location("planted_edits", ROOT / "kernel/defects/edits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


defects = load_defects()


def attend(q: Any, k: Any, v: Any, first: int, last: int) -> Any:
    """Attend from (rows, heads, d) to some of the keys, whose last is that of the last row."""
    import torch

    scores = torch.einsum("qhd,khd->hqk", q, k[first:last]) / math.sqrt(q.shape[-1])
    hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(last - first - len(q) + 1)
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(), v[first:last])


def stand_in(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any = None, **options: Any) -> Any:
    """Compute ``attention_varlen`` over packed rows, or over whole sequences as pages."""
    import torch

    assert options["causal"]
    table, used, results = options.get("page_table"), options["seqused_k"].tolist(), []
    for i, length in enumerate(used):
        rows = q[starts_q[i] : starts_q[i + 1]]
        keys, values = (x[table[i, 0]] if table is not None else x[starts_k[i] :] for x in (k, v))
        results.append(attend(rows, keys, values, 0, length))
    return torch.cat(results)


def turn(rows: Any, tables: Any, first: int) -> Any:
    """Turn pairs of neighbouring columns of (rows, heads, d) by the angles of positions from the first on."""
    import torch

    angles = torch.complex(*(table[first : first + len(rows), None] for table in tables))
    pairs = torch.view_as_complex(rows.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * angles).flatten(-2)


def measure(operators: Any, feature: str) -> float:
    """Return the largest error of a call that uses one feature, against each sequence alone."""
    torch = operators.torch
    from flashcore import _kvcache

    torch.manual_seed(1)
    q = torch.randn(3, QUERIES, HEADS, HEAD_DIM)
    caches = [torch.randn(CACHED if feature == "index" else 3, CAPACITY, HEADS, HEAD_DIM) for _ in "kv"]
    new = [torch.randn(3, QUERIES, HEADS, HEAD_DIM) for _ in "kv"]
    angles = torch.randn(CAPACITY, HEAD_DIM // 2)
    tables = (angles.cos(), angles.sin())
    given = {
        "padding": {"cache_leftpad": torch.tensor(PADDING, dtype=torch.int32)},
        "index": {"cache_batch_idx": torch.tensor(INDEX, dtype=torch.int32)},
        "rotary": {"rotary_cos": tables[0], "rotary_sin": tables[1], "k": new[0], "v": new[1]},
    }[feature]
    expected = []
    for i, length in enumerate(LENGTHS):
        place = INDEX[i] if feature == "index" else i
        rows, (k, v), end = q[i], (cache[place].clone() for cache in caches), length
        if feature == "rotary":
            rows, end = turn(rows, tables, length), length + QUERIES
            k[length:end], v[length:end] = turn(new[0][i], tables, length), new[1][i]
        expected.append(attend(rows, k, v, PADDING[i] if feature == "padding" else 0, end))
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    out = _kvcache.flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, causal=True, **given)
    return float((out - torch.stack(expected)).abs().max())


@pytest.mark.parametrize("defect", defects.EDITS)
def test_an_edit_gives_wrong_results_and_is_taken_back(operators: Any, monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    from flashcore import _cache, _packed

    for module in (_cache, _packed):
        monkeypatch.setattr(module, "attention_varlen", stand_in)
    feature = next(name for beginning, name in FEATURES.items() if defect.startswith(beginning))
    assert measure(operators, feature) < TOLERANCE
    with defects.edit(defect):
        assert measure(operators, feature) > 100 * TOLERANCE
        others = set(FEATURES.values()) - {feature}
        assert max(measure(operators, other) for other in others) < TOLERANCE
    assert measure(operators, feature) < TOLERANCE


def test_an_edit_that_does_not_fit_any_more_is_named(operators: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defects, "EDITS", {"gone": ("_rotary", "no such text", "")})
    with pytest.raises(ValueError, match=r"^gone: flashcore/_rotary\.py has 'no such text' 0 times"), defects.edit("gone"):
        pass


def test_an_edit_reads_sources_only(operators: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker refuses a subject that opens a file of the checkout as data."""
    assert operators.flashcore.flash_attn_with_kvcache  # what its module imports is read before
    for seen in ("_as_data", "_by_import"):
        monkeypatch.setattr(file_reads, seen, set())
    monkeypatch.setattr(file_reads, "_watched", [])
    linecache.clearcache()
    defects._compile.cache_clear()
    file_reads.watch(ROOT)
    for defect in defects.EDITS:
        with defects.edit(defect):
            pass
    with file_reads.unrecorded():
        read = {path.name for path in file_reads._by_import}
        assert (file_reads._as_data, read) == (set(), {"_packed.py", "_kvcache.py", "_rotary.py"})

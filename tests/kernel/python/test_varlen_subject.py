"""Pages of the subject of attention: the same keys as in packed rows, and only wrong entries and NaN elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BASE = {"b": 7, "h": 4, "hkv": 2, "sq": 40, "sk": 130, "d": 64}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("subject_attention_pages", ROOT / "kernel/subjects/attention.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.DEVICE = "cpu"
    return module


def test_entries_and_lengths() -> None:
    subject = load()
    paged = subject.problem({**BASE, "lengths": "edges", "page": 48})
    packed = subject.problem({**BASE, "lengths": "edges"})
    assert paged == {**packed, "entries": ["flashcore_attention_prepare", "flashcore_attention_fwd_paged_d64_fp16_full"]}
    assert subject.varlen.LENGTHS["serving"]({"b": 4, "sq": 40, "sk": 640}) == [(40, 40), (40, 640), (1, 28), (1, 226)]


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        ({}, "fwd_paged_d64_fp16_full"),
        ({"max_ctas": 28}, "fwd_d64_fp16_full"),
        ({"hkv": 4}, "fwd_d64_fp16_full"),
        ({"d": 56}, "fwd_d64_fp16_full"),
        ({"left": 9}, "local_d64_fp16"),
        ({"sq": 400, "sk": 400}, "fwd_d64_fp16_full"),
        ({"sk": 0}, "fwd_d64_fp16_full"),
    ],
)
def test_packed_rows_of_short_sequences_are_read_as_a_page(change: dict[str, Any], entry: str) -> None:
    found = load().problem({**BASE, "lengths": "edges", "max_ctas": 27, **change})
    assert found["entries"] == ["flashcore_attention_prepare", f"flashcore_attention_{entry}"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"page": 16}, "page"),
        ({"page": 16, "lengths": "edges", "d": 96}, "page"),
        ({"b": 2, "lengths": "serving"}, "b"),
        ({"b": 9, "lengths": "serving", "page": 16, "flash": True}, "lengths"),
        ({"page": -1}, "page"),
    ],
)
def test_bad_parameters_are_named(change: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        load().problem({**BASE, **change})


@pytest.mark.parametrize("lengths", ["edges", "serving", "ragged"])
@pytest.mark.parametrize(("page", "strided"), [(16, False), (48, True), (1, False), (256, True)])
def test_pages_hold_the_keys_of_packed_rows(page: int, strided: bool, lengths: str) -> None:
    torch = pytest.importorskip("torch")
    subject = load()
    paged = subject.inputs({**BASE, "lengths": lengths, "page": page, "strided": strided}, 3)
    packed = subject.inputs({**BASE, "lengths": lengths}, 3)
    starts = packed["cu_seqlens_k"].tolist()
    counts = paged["seqused_k"].tolist()
    for name in ("k", "v"):
        assert paged[name].shape[1:] == (page, 2, 64)
        assert int(paged[name].isfinite().all(-1).sum()) == 2 * sum(counts)
        for i, count in enumerate(counts):
            assert torch.equal(subject.varlen._gather_keys(paged, name, i), packed[name][starts[i] : starts[i] + count])
    used = [entry for row, count in zip(paged["page_table"].tolist(), counts, strict=True) for entry in row[: -(-count // page)]]
    assert len(set(used)) == len(used) == len(paged["k"]) - 2
    assert paged["page_table"].shape[1] == -(-max(counts) // page)


USED = [0, 0, 8, 39, 20, 40, 0]
"""Of 0, 1, 17, 40, 40, 40 and 1 queries: all, none, half, all but one, half, all and none."""


def test_unused_queries_are_nan_and_keep_their_results() -> None:
    torch = pytest.importorskip("torch")
    from flashcore_ci.worker.tensors import upcast

    subject = load()
    case = {**BASE, "lengths": "edges", "causal": True}
    whole, used = (upcast(subject.inputs({**case, "used": is_used}, 3)) for is_used in (False, True))
    assert used["seqused_q"].tolist() == USED
    starts = used["cu_seqlens_q"].tolist()
    kept = torch.zeros(starts[-1], dtype=torch.bool)
    for start, count in zip(starts, USED, strict=False):
        kept[start : start + count] = True
    assert torch.equal(used["q"].isnan().any(-1).any(-1), ~kept)
    assert torch.equal(used["q"][kept], whole["q"][kept])
    found = subject.reference(used)
    assert bool((found["out"][~kept] == 0).all())
    assert bool((found["lse"][:, ~kept] == -float("inf")).all())
    for i, (start, count) in enumerate(zip(starts, USED, strict=False)):
        keys = {name: subject.varlen._gather_keys(whole, name, i)[None] for name in ("k", "v")}
        plain = {name: value for name, value in whole.items() if not name.startswith("cu_")}
        alone = subject.reference({**plain, **keys, "q": whole["q"][None, start : start + count]})
        assert torch.equal(found["out"][start : start + count], alone["out"][0])
        assert torch.equal(found["lse"][:, start : start + count], alone["lse"][0])
    pairs = sum(
        max(0, sk - count + row + 1)
        for count, (_, sk) in zip(USED, subject.varlen.LENGTHS["edges"](case), strict=True)
        for row in range(count)
    )
    assert subject.problem({**case, "used": True})["flops"] == 4.0 * BASE["h"] * BASE["d"] * pairs


def test_keys_behind_padding_are_those_of_packed_rows() -> None:
    torch = pytest.importorskip("torch")
    subject = load()
    case = {**BASE, "lengths": "edges", "flash": True}
    packed, padded = (subject.inputs({**case, "leftpad": is_padded}, 3) for is_padded in (False, True))
    assert padded["cache_leftpad"].tolist() == [0, 5, 64, 129, 0, 5, 64]
    assert "cu_seqlens_k" not in padded
    for name in ("k", "v"):
        rows = [subject.varlen._gather_keys(padded, name, i) for i in range(BASE["b"])]
        assert torch.equal(torch.cat(rows), packed[name])
        assert int(padded[name].isfinite().all(-1).all(-1).sum()) == len(packed[name])
        assert padded[name].shape[1] > int(padded["seqused_k"].max())


@pytest.mark.parametrize("change", [{"used": True}, {"leftpad": True, "flash": True}, {"leftpad": True, "lengths": "edges"}])
def test_unused_queries_and_padding_need_unequal_lengths(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^used, leftpad: need unequal lengths"):
        load().problem({**BASE, **change})

"""The subject of decode: counted work, generated caches, and a reference that equals plain loops."""

from __future__ import annotations

import importlib.util
import itertools
import math
import pathlib
from types import ModuleType
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BASE = {"b": 5, "h": 6, "hkv": 2, "sk": 70, "d": 64}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("subject_decode", ROOT / "kernel/subjects/decode.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_flops_bytes_and_entries() -> None:
    subject = load()
    row = {"b": 64, "h": 32, "hkv": 8, "sk": 8192, "d": 128}
    assert subject.problem(row) == {
        "flops": 4.0 * 64 * 32 * 128 * 8192,
        "bytes": 2.0**31 + 2.0 * 2 * 64 * 32 * 128 + 4.0 * 64 * 32,
        "entries": ["flashcore_decode_d128_fp16"],
    }
    few = {"b": 1, "h": 1, "sk": 10, "d": 64}
    assert subject.problem({**few, "sq": 3})["flops"] == 4 * 64 * (8 + 9 + 10)
    assert subject.problem({**few, "sq": 3, "causal": False})["flops"] == 4 * 64 * 30
    assert subject.problem({**few, "sk": 1, "sq": 3})["flops"] == 4 * 64
    assert subject.problem({**few, "new": 4})["bytes"] - subject.problem(few)["bytes"] == 2 * 2 * 4 * 64


def test_scales_of_tokens_and_pages_count() -> None:
    """Four bytes for K and for V, per KV head and token or page. Those of sequences are not counted."""
    subject = load()
    row = {**BASE, "cache": "e4m3", "page": 16}
    tokens, pages = 4 * 2 * 2 * 5 * 70, 4 * 2 * 2 * 5 * 5
    for scales, more in (("token", tokens), ("page", pages)):
        assert subject.problem({**row, "scales": scales})["bytes"] == subject.problem(row)["bytes"] + more


def test_packed_queries_count_only_what_is_served() -> None:
    """Six sequences with 1, 4, 0, 20 (too many), 2 and 1 queries."""
    subject = load()
    p = {"b": 6, "h": 2, "hkv": 1, "sk": 10, "d": 64, "sq": 20, "packed": 4}
    pairs = 10 + (7 + 8 + 9 + 10) + (9 + 10) + 10
    rows = 1 + 4 + 2 + 1
    assert subject.problem(p) == {
        "flops": 4.0 * 2 * 64 * pairs,
        "bytes": float(2 * rows * (4 * 64 + 4) + 4 * 64 * 40),
        "entries": ["flashcore_decode_ragged_d64_fp16"],
    }
    assert subject.problem({**p, "causal": False})["flops"] == 4.0 * 2 * 64 * 10 * rows


@pytest.mark.parametrize(
    ("page", "kind"), [(0, "ragged_"), (16, "ragged_"), (1024, "ragged_"), (1, "gather_"), (8, "gather_"), (48, "gather_")]
)
def test_pages_without_a_box_have_entry_functions_of_their_own(page: int, kind: str) -> None:
    subject = load()
    built = {entry["symbol"] for entry in subject.build(ROOT)["entries"]}
    p = {**BASE, "page": page, "packed": 4, "sq": 20}
    assert subject.problem(p)["entries"] == [f"flashcore_decode_{kind}d64_fp16"]
    name = f"flashcore_decode_{'gather_' if kind == 'gather_' else 'local_ragged_'}d64_fp16"
    assert subject.problem({**p, "left": 30})["entries"] == [name]
    assert name in built


def test_length_distributions() -> None:
    subject = load()
    ragged = subject.sequences.LENGTHS["ragged"](32, 32768)
    assert min(ragged) > 256
    assert max(ragged) < 32768
    assert ragged[:4] == [276, 30376, 321, 26102]
    assert {math.floor(math.log2(n / 256)) for n in ragged} == set(range(7))
    edges = subject.sequences.LENGTHS["edges"](17, 700)
    assert {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 700, 699} == set(edges)
    assert max(subject.sequences.LENGTHS["edges"](17, 100)) == 100


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"sQ": 3}, "sQ"), ({"sq": 17}, "sq"), ({"d": 100}, "d"), ({"d": 24, "cache": "e4m3"}, "d"), ({"hkv": 4}, "hkv"), ({"b": -1}, "b"), ({"page": 1025}, "page"),
        ({"page": 8}, "page"),
        ({"lengths": "odd"}, "lengths"), ({"input": "odd"}, "input"), ({"new": 71}, "new"), ({"sk": None}, "sk"),
        ({"scales": "token"}, "scales"), ({"scales": "page", "cache": "e4m3"}, "scales"), ({"scales": "head", "cache": "e4m3"}, "scales"),
        ({"packed": 17}, "packed"), ({"packed": 2, "new": 1}, "packed"), ({"packed": 2, "flash": True}, "packed"),
        ({"used": True}, "used"), ({"rotary": "odd"}, "rotary"), ({"rotary": "pairs", "flash": True}, "rotary"), ({"index": True}, "index"),
        ({"leftpad": True, "flash": True, "new": 1}, "leftpad"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(change: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        load().problem({**BASE, **change})


@pytest.fixture
def cpu_subject(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the subject for the CPU."""
    pytest.importorskip("torch")
    subject = load()
    for module in (subject, subject.fp8):
        monkeypatch.setattr(module, "DEVICE", "cpu")
    return subject


CASES = [
    {"lengths": "edges", "page": 16, "sq": 3, "new": 2},
    {"lengths": "edges"},
    {"lengths": "ragged", "sq": 4, "causal": False, "new": 1, "dtype": "bf16"},
    {"page": 16, "sq": 4, "sk": 33, "input": "rising"},
    {"page": 64, "sq": 2, "sk": 33, "new": 33, "input": "constant", "dtype": "bf16"},
    {"lengths": "edges", "page": 16, "sq": 3, "new": 3, "flash": True, "rotary": "pairs"},
    {"lengths": "edges", "sq": 3, "new": 3, "flash": True, "rotary": "halves", "causal": False},
    {"lengths": "edges", "sq": 3, "flash": True, "index": True},
    {"lengths": "edges", "page": 16, "flash": True, "index": True, "leftpad": True},
    {"b": 9, "lengths": "edges", "page": 7, "sq": 3, "flash": True, "leftpad": True},
]


def turn(row: Any, inputs: dict[str, Any], position: int) -> Any:
    """Rotate (heads, d) column by column."""
    turned, half = row.clone(), inputs["rotary_cos"].shape[1] if inputs["rotary"] else 0
    for j in range(half):
        a, b = (2 * j, 2 * j + 1) if inputs["rotary"] == "pairs" else (j, j + half)
        cos, sin = inputs["rotary_cos"][position, j], inputs["rotary_sin"][position, j]
        turned[:, a], turned[:, b] = row[:, a] * cos - row[:, b] * sin, row[:, a] * sin + row[:, b] * cos
    return turned


def get_row(inputs: dict[str, Any], name: str, sequence: int, position: int) -> Any:
    before, table = int(inputs["lengths"][sequence]), inputs["page_table"]
    if position >= before:
        row = inputs[f"{name}_new"][sequence, position - before]
        return turn(row, inputs, position) if name == "k" else row
    sequence = int(inputs["cache_batch_idx"][sequence]) if "cache_batch_idx" in inputs else sequence
    if table is None:
        return inputs[name][sequence, position]
    page = inputs[name].shape[1]
    return inputs[name][int(table[sequence, position // page]), position % page]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_is_the_formula(cpu_subject: Any, case: dict[str, Any]) -> None:
    import torch

    from flashcore_ci.worker.tensors import upcast

    inputs = upcast(cpu_subject.inputs({**BASE, **case}, 3))
    q, new = inputs["q"], case.get("new", 0)
    b, sq, h, d = q.shape
    expected = cpu_subject.reference(inputs)
    assert bool(expected["out"].isfinite().all())
    for i, r, head in ((i, r, head) for i in range(b) for r in range(sq) for head in (0, h - 1)):
        first = int(inputs["cache_leftpad"][i]) if case.get("leftpad") else 0
        visible = int(inputs["lengths"][i]) + new - (sq - 1 - r if inputs["causal"] else 0)
        if visible <= first:
            assert float(expected["out"][i, r, head].abs().max()) == 0
            assert float(expected["lse"][i, head, r]) == -math.inf
            continue
        keys, values = (
            torch.stack([get_row(inputs, name, i, j)[head // 3] for j in range(first, visible)]) for name in ("k", "v")
        )
        position = int(inputs["lengths"][i]) + r * inputs["causal"]
        scores = keys @ turn(q[i, r], inputs, position)[head] / math.sqrt(d)
        torch.testing.assert_close(expected["lse"][i, head, r], scores.logsumexp(0))
        torch.testing.assert_close(expected["out"][i, r, head], scores.softmax(0) @ values)


def list_used(inputs: dict[str, Any]) -> list[tuple[int, int, int]]:
    """List each sequence's cache, its first key and its end."""
    lengths = inputs["lengths"].tolist()
    chosen, padding = (inputs.get(name) for name in ("cache_batch_idx", "cache_leftpad"))
    chosen = range(len(lengths)) if chosen is None else chosen.tolist()
    return list(zip(chosen, [0] * len(lengths) if padding is None else padding.tolist(), lengths, strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_seed_changes_values_only_and_unused_rows_are_nan(cpu_subject: Any, case: dict[str, Any]) -> None:
    import torch

    first, same, other = (cpu_subject.inputs({**BASE, **case}, seed) for seed in (3, 3, 4))
    used = {(c, j) for c, a, n in list_used(first) for j in range(a, n)}
    for name, tensor in first.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        assert torch.equal(tensor.nan_to_num(9.0), same[name].nan_to_num(9.0))
        assert torch.equal(tensor.isnan(), other[name].isnan())
        assert tensor.is_floating_point() or torch.equal(tensor, other[name])
        if name in {"k", "v"}:
            assert int((~tensor.isnan()).sum()) == len(used) * 2 * 64
    if first["page_table"] is not None:
        inside = first["page_table"][(first["page_table"] >= 0) & (first["page_table"] < len(first["k"]))]
        assert len(set(inside.tolist())) == len(inside)
        assert bool((first["page_table"] < 0).any()) or case.get("lengths", "full") == "full"


def test_appended_caches_are_outputs_and_inputs_stay(cpu_subject: Any) -> None:
    import torch

    case = {**BASE, "lengths": "edges", "page": 16, "new": 2}
    inputs = cpu_subject.inputs(case, 3)
    before = inputs["k"].clone()
    expected = cpu_subject.reference({**inputs, **{name: inputs[name].double() for name in ("q", "k", "v", "k_new", "v_new")}})
    outputs = cpu_subject.outputs(inputs)
    assert {name: tuple(tensor.shape) for name, tensor in outputs.items()} == {
        name: tuple(t.shape) for name, t in expected.items()
    }
    assert torch.equal(inputs["k"].nan_to_num(9.0), before.nan_to_num(9.0))
    changed = expected["k"] != before.double().nan_to_num(cpu_subject.MARK)
    assert int(changed.sum()) == inputs["k_new"].numel()


@pytest.mark.parametrize(
    "case",
    [{"scales": "token"}, {"scales": "token", "page": 16, "new": 3, "dtype": "e4m3"}, {"scales": "page", "page": 16, "new": 2}],
    ids=str,
)
def test_scales_of_tokens_and_pages_follow_the_formula(cpu_subject: Any, case: dict[str, Any]) -> None:
    """The scale of a key is at its place in the page table, and differs from its neighbours'. Where no key is, it is NaN."""
    import torch

    from flashcore_ci.worker.tensors import upcast

    inputs = upcast(cpu_subject.inputs({**BASE, **case, "cache": "e4m3", "lengths": "edges"}, 3))
    expected, new = cpu_subject.reference(inputs), case.get("new", 0)
    q, table, d = inputs["q"], inputs["page_table"], 64
    if "q_scale" in inputs:
        q = cpu_subject.fp8.to_float(q).double() * inputs["q_scale"].repeat_interleave(3, 1)[:, None, :, None]
    used = 0
    for i, n in enumerate(inputs["lengths"].tolist()):
        rows: dict[str, list[Any]] = {"k": [], "v": []}
        for (name, kept), j in itertools.product(rows.items(), range(n + new)):
            page, place = (i, j) if table is None else (int(table[i, j // 16]), j % 16)
            scale = inputs[f"{name}_scale"].expand(-1, inputs[name].shape[1], -1)[page, place]
            used += len(scale) if case["scales"] == "token" or place == 0 else 0
            row = inputs[f"{name}_new"][i, j - n] if j >= n else inputs[name][page, place]
            stored = cpu_subject.fp8.quantise(row, scale) if j >= n else row
            kept.append(cpu_subject.fp8.to_float(stored).double() * scale[:, None])
        for head in (0, 5) if n + new else ():
            keys, values = (torch.stack(kept)[:, head // 3] for kept in rows.values())
            scores = keys @ q[i, 0, head] / math.sqrt(d)
            torch.testing.assert_close(expected["out"][i, 0, head], scores.softmax(0) @ values)
    assert used == sum(int((~inputs[f"{name}_scale"].isnan()).sum()) for name in "kv")


@pytest.mark.parametrize("causal", [False, True])
def test_packed_queries_are_the_rows_of_single_sequences(cpu_subject: Any, causal: bool) -> None:
    """The reference of a sequence is that of decode, and rows of sequences that are left out are 0."""
    import torch

    from flashcore_ci.worker.tensors import upcast

    case = {**BASE, "b": 7, "lengths": "edges", "page": 16, "sq": 20, "packed": 3, "causal": causal}
    inputs = upcast(cpu_subject.inputs(case, 3))
    expected, outputs = cpu_subject.reference(inputs), cpu_subject.outputs(inputs)
    starts = inputs["starts"].tolist()
    assert [end - start for start, end in itertools.pairwise(starts)] == [1, 3, 0, 20, 2, 1, 1]
    assert {name: tuple(tensor.shape) for name, tensor in outputs.items()} == {"out": (28, 6, 64), "lse": (6, 28)}
    assert inputs["left_out"].nonzero().flatten().tolist() == list(range(4, 24))
    assert bool((expected["out"][4:24] == 0).all())
    assert bool((expected["lse"][:, 4:24] == -math.inf).all())
    for i in (0, 1, 4, 5, 6):
        rows, one = slice(starts[i], starts[i + 1]), slice(i, i + 1)
        single = {name: inputs[name] for name in ("k", "v", "causal")}
        single |= {"q": inputs["q"][rows][None], "lengths": inputs["lengths"][one], "page_table": inputs["page_table"][one]}
        right = cpu_subject.reference(single)
        assert torch.equal(expected["out"][rows], right["out"][0])
        assert torch.equal(expected["lse"][:, rows], right["lse"][0])


def test_unused_rows_of_packed_queries_are_nan_and_left_out(cpu_subject: Any) -> None:
    """Two of them behind each sequence but the one of too many, which uses all."""
    import torch

    from flashcore_ci.worker.tensors import upcast

    case = {**BASE, "b": 7, "lengths": "edges", "page": 16, "sq": 20, "packed": 3, "causal": True}
    packed, used = (upcast(cpu_subject.inputs({**case, "used": is_used}, 3)) for is_used in (False, True))
    starts = used["starts"].tolist()
    assert used["seqused_q"].tolist() == [1, 3, 0, 20, 2, 1, 1]
    assert [end - start for start, end in itertools.pairwise(starts)] == [3, 5, 2, 20, 4, 3, 3]
    unused = torch.ones(len(used["q"]), dtype=torch.bool)
    for start, count in zip(starts, used["seqused_q"].tolist(), strict=False):
        unused[start : start + count] = False
    assert bool(used["q"][unused].isnan().all())
    assert used["left_out"].nonzero().flatten().tolist() == [i for i, row in enumerate(unused) if row or 10 <= i < 30]
    first, second = (cpu_subject.reference(inputs) for inputs in (packed, used))
    assert torch.equal(first["out"][~packed["left_out"]], second["out"][~used["left_out"]])
    assert torch.equal(first["lse"][:, ~packed["left_out"]], second["lse"][:, ~used["left_out"]])

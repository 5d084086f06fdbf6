"""kernel/variants.toml, what is generated from it, and the subjects that read it."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import re
import shutil
import tomllib
from types import ModuleType
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE: dict[str, Any] = tomllib.loads((ROOT / "kernel/variants.toml").read_text(encoding="utf-8"))
ENTRIES = [{**TABLE["attention"]["tiles"][entry["tile"]], **entry} for entry in TABLE["attention"]["entries"]]
DECODE_AND_DETERMINISTIC = [{**TABLE["decode"]["tiles"][entry["tile"]], **entry} for entry in TABLE["decode"]["entries"]]
DETERMINISTIC = [entry for entry in DECODE_AND_DETERMINISTIC if entry.get("deterministic")]
DECODE = [entry for entry in DECODE_AND_DETERMINISTIC if not entry.get("deterministic")]
WARPGROUP = [
    {**TABLE[group]["tiles"][entry["tile"]], **entry}
    for group in ("decode_ragged", "decode_local")
    for entry in TABLE[group]["entries"]
    if entry["tile"].startswith("warpgroup")
]
SUBJECTS = ("attention", "decode", "stream", "combine")


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load("tools/docs/generate_instantiations.py")


def test_generated_files_are_up_to_date() -> None:
    assert generator.stale(ROOT) == []
    assert generator.main(["--check"]) == 0


def test_check_finds_missing_stale_and_left_over_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kernel").mkdir()
    shutil.copy(ROOT / "kernel/variants.toml", tmp_path / "kernel")
    assert len(generator.stale(tmp_path)) == len(generator.render(TABLE))
    generator.write(tmp_path)
    assert generator.stale(tmp_path) == []
    folder = tmp_path / "kernel/instantiations"
    stale, *_ = sorted(folder.glob("*.cu"))
    stale.write_text("// edited\n", encoding="utf-8")
    (folder / "old.cu").touch()
    assert generator.stale(tmp_path) == [f"kernel/instantiations/{stale.name}: stale", "kernel/instantiations/old.cu: left over"]
    generator.write(tmp_path)
    assert generator.stale(tmp_path) == []


def test_one_entry_for_every_head_dimension_type_and_mask() -> None:
    found = sorted((entry["head_dim"], entry["dtype"], entry["causal"], "paged_kv" in entry) for entry in ENTRIES)
    assert found == list(itertools.product((64, 128, 256), ("bf16", "fp16"), (False, True), (False, True)))
    for entry in ENTRIES:
        mask, paged = "causal" if entry["causal"] else "full", "paged_" if entry.get("paged_kv") else ""
        assert entry["symbol"] == f"flashcore_attention_fwd_{paged}d{entry['head_dim']}_{entry['dtype']}_{mask}"


def test_the_subject_names_the_entry_function_that_the_launcher_chooses() -> None:
    """``choose`` of attention/plan.h: the least padding."""
    subject = load("kernel/subjects/attention.py")
    rows = [entry for entry in ENTRIES if not entry.get("paged_kv")]
    for d, dtype, causal in itertools.product((64, 72, 128, 136, 256), ("fp16", "bf16"), (False, True)):
        able = [entry for entry in rows if entry["head_dim"] >= d and (entry["dtype"], entry["causal"]) == (dtype, causal)]
        chosen = min(able, key=lambda entry: entry["head_dim"])
        params = {"b": 1, "h": 1, "sq": 64, "sk": 200, "d": d, "dtype": dtype, "causal": causal}
        assert subject.problem(params)["entries"] == [chosen["symbol"]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["symbol"])
def test_budgets_of_registers_and_shared_memory(entry: dict[str, Any]) -> None:
    query = entry["tile_m"] * entry["head_dim"] * 2
    keys = entry["tile_n"] * entry["head_dim"] * 2
    warpgroups = entry["consumer_warpgroups"]
    tiles = 32 * entry["q_stages"] * warpgroups + 48
    barriers = 8 * (2 * entry["q_stages"] * warpgroups + 4 * entry["kv_stages"]) + tiles
    assert barriers <= 1024
    assert entry["dynamic_shared_bytes"] == entry["q_stages"] * query + 2 * entry["kv_stages"] * keys + 1024 <= 227 * 1024
    at_launch = 65536 // (128 * (1 + warpgroups)) // 8 * 8
    assert 24 + warpgroups * entry["max_registers"] <= (1 + warpgroups) * at_launch
    assert entry["tile_m"] == 64 * warpgroups


@pytest.mark.parametrize("entry", DECODE_AND_DETERMINISTIC, ids=lambda entry: entry["symbol"])
def test_budgets_of_decode(entry: dict[str, Any]) -> None:
    warps, stages, d = entry["consumer_warps"], entry["stages"], entry["head_dim"]
    kind = "deterministic_" if entry.get("deterministic") else ""
    assert entry["symbol"] == f"flashcore_decode_{kind}d{d}_{entry['dtype']}"
    tiles = 2 * stages * entry["tile_keys"] * d * 2
    merge = warps * 8 * (d + 4) * 4 + 2 * warps * 16 * 8
    slots = stages * 2 * 8 + 4 * (2 * 8 + 7 * 4) + 2 * 4 + 4
    folded = (16 if d == 256 else 32) * (d + 2 * d // 64) * 4 if kind else 0
    shared = sum(-(-part // 1024) * 1024 for part in (tiles + merge + slots, folded))
    assert entry["dynamic_shared_bytes"] == shared <= 227 * 1024
    warps_of_a_quarter = -(-(warps + 1) // 4)
    assert entry["max_registers"] <= min(16384 // 32 // warps_of_a_quarter // 8 * 8, 255)


@pytest.mark.parametrize("entry", WARPGROUP, ids=lambda entry: entry["symbol"])
def test_budgets_of_a_warpgroup(entry: dict[str, Any]) -> None:
    stages = entry["stages"]
    slots = stages * 2 * 8 + 4 * (2 * 8 + 9 * 4) + 2 * 4 + 4
    tiles = 2 * stages * entry["tile_keys"] * entry["head_dim"] * 2
    assert entry["dynamic_shared_bytes"] == -(-(tiles + slots) // 1024) * 1024 <= 227 * 1024
    assert entry["consumer_warps"] * 16 == 64
    assert entry["max_registers"] <= 255  # two warps of a quarter


def test_one_decode_entry_for_every_head_dimension_and_type() -> None:
    for entries in (DECODE, DETERMINISTIC):
        assert [(e["head_dim"], e["dtype"]) for e in entries] == [(d, t) for d in (64, 128, 256) for t in ("fp16", "bf16")]
    assert [(e["head_dim"], e["dtype"]) for e in WARPGROUP] == [(d, t) for d in (64, 128) for t in ("fp16", "bf16")] * 2


def test_entry_functions_are_a_budget() -> None:
    """Kernels that round to E4M3 are not in variants.toml. With them there are more than 120, as kernel/README.md says."""
    assert sum(len(group["entries"]) for group in TABLE.values()) <= 120
    sources = sorted((ROOT / "kernel/src").glob("*.cu"))
    assert {path.name: count for path in sources if (count := path.read_text(encoding="utf-8").count("__global__"))} == {
        "quantise.cu": 5, "quantise_blocks.cu": 5,
    }  # fmt: skip


@pytest.mark.parametrize("name", SUBJECTS)
def test_subject_names_files_that_exist(name: str) -> None:
    described = load(f"kernel/subjects/{name}.py").build(ROOT)
    assert described["library"] == f"libflashcore_{name}.so"
    files = [*described["launchers"], *described["binding"], *(entry["source"] for entry in described["entries"])]
    assert all((ROOT / file).is_file() for file in files)
    for entry in described["entries"]:
        text = (ROOT / entry["source"]).read_text(encoding="utf-8")
        assert re.findall(r"(\w+)\(\s*const __grid_constant__", text) == [entry["symbol"]]


@pytest.mark.parametrize("name", SUBJECTS)
def test_launchers_do_not_reach_device_code(name: str) -> None:
    """A launcher's headers are part of the evidence's digest; device code counts by its machine code instead."""
    todo = list(load(f"kernel/subjects/{name}.py").build(ROOT)["launchers"])
    seen = set()
    while todo:
        path = todo.pop()
        seen.add(path)
        included = re.findall(r'#include "(.+?)"', (ROOT / path).read_text(encoding="utf-8"))
        todo += [found for found in (f"kernel/include/{name}" for name in included) if found not in seen]
    assert not [path for path in seen if path.endswith(".cuh")]


def test_layers_of_the_headers() -> None:
    """ptx < sm90 < core < attention, decode, stream < quantise: nothing includes what stands above it."""
    order = {"ptx": 0, "sm90": 1, "core": 2, "attention": 3, "combine": 3, "decode": 3, "stream": 3, "quantise": 4}
    include = ROOT / "kernel/include/flashcore"
    for path in include.rglob("*.*h"):
        own = path.relative_to(include).parts[0]
        for other in re.findall(r'#include "flashcore/(\w+)/', path.read_text(encoding="utf-8")):
            assert other == own or order[other] < order[own], f"{path} includes {other}"


def test_attention_counts_work_and_names_bad_parameters() -> None:
    subject = load("kernel/subjects/attention.py")
    base = {"b": 2, "h": 4, "sq": 128, "d": 64}
    assert subject.problem(base) == {
        "flops": 4.0 * 2 * 4 * 64 * 128 * 128,
        "bytes": 2.0 * 4 * 2 * 4 * 128 * 64 + 4 * 2 * 4 * 128,
        "entries": ["flashcore_attention_fwd_d64_fp16_full"],
    }
    assert subject.problem({**base, "causal": True})["flops"] == 4.0 * 2 * 4 * 64 * (128 * 129 // 2)
    assert subject.problem({**base, "sq": 799, "sk": 3, "causal": True})["flops"] == 4.0 * 2 * 4 * 64 * 6
    assert subject.problem({**base, "sq": 0})["entries"] == []
    for d, tile in ((8, 64), (72, 128), (192, 256), (256, 256)):
        assert subject.problem({**base, "d": d})["entries"] == [f"flashcore_attention_fwd_d{tile}_fp16_full"]
    for change, name in (
        ({"sQ": 3}, "sQ"),
        ({"d": 100}, "d"),
        ({"d": 264}, "d"),
        ({"hkv": 3}, "hkv"),
        ({"b": -1}, "b"),
        ({"input": "odd"}, "input"),
        ({"lengths": "odd"}, "lengths"),
        ({"lengths": "ragged", "layout": "bhsd"}, "layout"),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            subject.problem({**base, **change})


def test_ragged_attention_counts_the_work_of_every_sequence() -> None:
    subject = load("kernel/subjects/attention.py")
    edges = {"b": 4, "h": 4, "hkv": 2, "sq": 100, "sk": 70, "d": 64, "lengths": "edges", "dtype": "bf16", "causal": True}
    assert subject.varlen.LENGTHS["edges"](edges) == [(0, 5), (1, 1), (17, 0), (100, 70)]
    assert subject.problem(edges) == {
        "flops": 4.0 * 4 * 64 * (1 + 70 * 71 // 2),
        "bytes": 2.0 * 2 * 64 * (4 * 118 + 2 * 76) + 4 * 4 * 118,
        "entries": ["flashcore_attention_prepare", "flashcore_attention_fwd_d64_bf16_causal"],
    }
    ragged = subject.varlen.LENGTHS["ragged"]({"b": 32, "sq": 32768, "sk": 32768})
    assert len(set(ragged)) == 32
    assert 256 <= min(ragged)[0] < 300
    assert 29000 < max(ragged)[0] <= 32768
    assert subject.problem({**edges, "b": 1})["entries"] == []


def test_stream_counts_work_and_names_bad_parameters() -> None:
    subject = load("kernel/subjects/stream.py")
    assert subject.problem({"n": 10}) == {"flops": 20.0, "bytes": 120.0, "entries": ["flashcore_stream_axpy_f32"]}
    with pytest.raises(ValueError, match=r"^n: "):
        subject.problem({})
    with pytest.raises(ValueError, match=r"^m: "):
        subject.problem({"n": 1, "m": 2})

"""The tuner's pure parts: possible tiles, survivors, and the choice."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]
VARIANTS = (ROOT / "kernel/variants.toml").read_text(encoding="utf-8")


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools/bench"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "tools/bench"))


space, choice, report, build = (load(f"tuner.{name}") for name in ("space", "choice", "report", "build"))
tune = load("tune")
GOOD = space.Candidate(head_dim=64, tile_m=192, tile_n=128, q_stages=2, kv_stages=3, consumer_warpgroups=3)
TALL = space.Candidate(head_dim=128, tile_m=128, tile_n=128, q_stages=2, kv_stages=2, consumer_warpgroups=2)
CONFIG = (ROOT / "kernel/include/flashcore/attention/config.h").read_text(encoding="utf-8")


def test_every_tile_in_use_is_possible_and_counts_its_shared_memory_right() -> None:
    tiles = tomllib.loads(VARIANTS)["attention"]["tiles"]
    for tile in tiles.values():
        candidate = space.of_table(tile)
        assert list(space.objections(candidate)) == []
        assert candidate.shared_bytes == tile["dynamic_shared_bytes"]
        assert candidate.registers_granted >= int(tile["max_registers"])
        assert {key: tile[key] for key in candidate.fields()} == candidate.fields()


def test_the_model_says_of_the_machine_what_the_kernel_asserts() -> None:
    assert f"kRegisterFile = {space.REGISTER_FILE};" in CONFIG
    assert f"kRegisterStep = {space.REGISTER_STEP};" in CONFIG
    assert f"kBarrierBytes = {space.BARRIER_BYTES};" in CONFIG
    assert f"kWarpgroupRows = {space.WARPGROUP_ROWS};" in CONFIG
    assert "227 * 1024" in (ROOT / "kernel/include/flashcore/attention/forward.cuh").read_text(encoding="utf-8")


def test_registers_are_what_the_launch_allocates() -> None:
    assert (TALL.registers_at_launch, TALL.registers_granted) == (168, 240)  # 504 = 3 x 168, not 512
    assert (GOOD.registers_at_launch, GOOD.registers_granted) == (128, 160)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kv_stages": 6}, "bytes of shared memory, 232448 are allowed"),
        ({"tile_n": 96}, "skip more than one KV block"),
        ({"tile_n": 144}, "about 163 registers, setmaxnreg can grant 160"),
    ],
)
def test_each_constraint_is_named(change: dict[str, int], sentence: str) -> None:
    assert list(space.objections(GOOD)) == []
    assert any(sentence in objection for objection in space.objections(replace(GOOD, **change)))


def test_the_search_space_has_the_base_first_and_no_impossible_member() -> None:
    found = space.candidates(replace(TALL, switches=(("query_in_registers", True),)))
    assert found[0].switches == (("query_in_registers", True),)
    assert len({one.name for one in found}) == len(found) == len(set(found))
    assert not any(objection for one in found[1:] for objection in space.objections(one))
    assert {dict(one.switches)["query_in_registers"] for one in found} == {False, True}
    assert replace(TALL, tile_n=176, q_stages=1, switches=(("query_in_registers", False),)) in found


@given(entrants=st.integers(1, 200), rows=st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True))
def test_a_tournament_ends_with_few_candidates_on_every_row(entrants: int, rows: list[str]) -> None:
    rungs = choice.rungs(entrants, rows)
    assert rungs[-1][1] == tuple(rows)
    assert rungs[-1][0] <= choice.FINALISTS
    assert all(after == max(choice.FINALISTS, math.ceil(before / 2)) for (before, _), (after, _) in itertools.pairwise(rungs))
    assert all(set(few) <= set(rows) for _, few in rungs)


@pytest.mark.parametrize(("entrants", "rows"), [(0, ["row"]), (3, [])])
def test_a_tournament_of_nothing_is_refused(entrants: int, rows: list[str]) -> None:
    with pytest.raises(ValueError, match="needs a candidate"):
        choice.rungs(entrants, rows)


def test_the_best_survive_and_the_one_in_use_always() -> None:
    cycles = {"a": {"x": 1.0, "y": 1.1, "z": 2.0}, "b": {"x": 2.2, "y": 2.0, "z": 4.0}}
    assert choice.scores(cycles) == pytest.approx({"x": math.sqrt(1.1), "y": math.sqrt(1.1), "z": 2.0})
    assert choice.survivors(cycles, 1, always=["z"]) == ["x", "z"]
    assert choice.survivors(cycles, 3, always=["z"]) == ["x", "y", "z"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
def test_a_candidate_without_a_number_on_a_row_is_out(bad: float) -> None:
    assert choice.survivors({"a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0}}, 2) == ["x"]
    assert choice.survivors({"a": {"x": 1.0, "y": bad}, "b": {"x": 1.0, "y": 1.0}}, 2) == ["x"]


def test_the_choice_beats_the_hand_by_more_than_the_noise_or_is_the_hand() -> None:
    near = {row: {"hand": 1.0, "other": 1 - choice.EQUAL / 2} for row in "ab"}
    assert choice.choose(64, "full", "hand", near).winner == "hand"
    far = {"a": {"hand": 1.0, "other": 0.9}, "b": {"hand": 1.0, "other": 1.02}, "c": {"hand": 1.0, "other": 1.001}}
    found = choice.choose(64, "full", "hand", far)
    assert (found.winner, found.not_slower, found.faster) == ("other", 2, 1)
    with pytest.raises(ValueError, match="was not timed"):
        choice.choose(64, "full", "hand", {"a": {"other": 1.0}})


def test_two_tiles_are_offered_where_length_decides() -> None:
    finals = {
        "64·16·512 causal fp16": {"a": 1.0, "b": 0.9},
        "16·16·2048 causal fp16": {"a": 1.0, "b": 0.99},
        "2·16·16384 causal fp16": {"a": 1.0, "b": 1.05},
    }
    found = choice.split(finals, "a")
    assert found[:3] == ("b", 2048, "a")
    assert found[3] == pytest.approx((1 / 0.9 / 0.99) ** (1 / 3))
    assert choice.split({row: {"a": 1.0, "b": 1.0} for row in finals}, "a") is None
    assert choice.split({**finals, "64·16·512 causal fp16": {"a": 1.0}}, "a") is None


def test_a_tma_store_epilogue_needs_its_slot() -> None:
    staged = replace(GOOD, switches=(("query_in_registers", False), ("ping_pong_barrier", True), ("tma_store_epilogue", True)))
    assert list(space.objections(staged)) == []
    for changed in (
        replace(staged, q_stages=1),
        replace(staged, switches=(("query_in_registers", False), ("ping_pong_barrier", False), ("tma_store_epilogue", True))),
    ):
        assert any("needs ping_pong_barrier" in objection for objection in space.objections(changed))


def tiles_of(text: str) -> dict[str, Any]:
    return tomllib.loads(text)["attention"]["tiles"]


def in_use(head_dim: int) -> Any:
    return space.of_table(tiles_of(VARIANTS)[f"d{head_dim}"])


def test_the_kernel_s_own_shapes_are_found_and_others_generated() -> None:
    assert {64, 128} <= build.widths(ROOT)
    text = build.specialisation(96)
    assert "Wgmma<__half, 96>" in text
    assert "m64n96k16" in text
    assert text.count('"+f"(d[47])') == 2
    assert "d[48]" not in text


def test_a_candidate_compiles_attention_only() -> None:
    files = build.sources(ROOT, in_use(64), tiles_of(VARIANTS)["d64"])
    names = {Path(path).name for path in files if path.endswith(".cu")}
    masks = {f"flashcore_attention_candidate_{mask}.cu" for mask in choice.MASKS}
    assert names == {*masks, "flashcore_attention_prepare.cu"}
    assert build.VARIANTS in files


def test_outcomes_come_back(tmp_path: Path) -> None:
    outcomes = [
        build.Built(candidate=in_use(64), base=True, registers=168),
        build.Built(candidate=GOOD, base=False, rejected="x"),
    ]
    build.write(tmp_path, outcomes)
    assert build.read(tmp_path) == outcomes


def test_spills_and_serialised_products_are_rejected() -> None:
    info = build.nvcc.PtxasInfo
    assert build.objection_to([info(registers=168)]) == ""
    assert build.objection_to([info(), info(spill_load_bytes=4)]) == "spills 0 bytes"
    assert "C7512" in build.objection_to([info(warnings=("(C7512) Potential Performance Loss: serialised",))])


A, B, C = (f"1·1·{length} full fp16" for length in (512, 1024, 2048))


def record(rung: int, cycles: dict[str, dict[str, float]]) -> dict[str, Any]:
    taken = {
        row: {name: {"megacycles": value, "ms": value, "rounds": 9} for name, value in names.items()}
        for row, names in cycles.items()
    }
    return {"head_dim": 64, "mask": "full", "rung": rung, "hand": "hand", "cycles": taken}


def test_the_report_says_what_was_held_and_what_was_rejected() -> None:
    samples = {
        "device": "NVIDIA H200",
        "date": "2026-11-21",
        "possible": 7,
        "rejected": [["d64-x", "spills 8 bytes"], ["d64-y", "spills 8 bytes"]],
        "records": [
            record(0, {A: {"hand": 1.0, "other": 0.9, "slow": 3.0}}),
            record(1, {A: {"hand": 1.0, "other": 0.9}, B: {"hand": 1.0, "other": 1.1}, C: {"hand": 1.0, "other": 0.95}}),
        ],
    }
    text = "\n".join(report.blocks(samples, {64: "192x128"}).values())
    assert "On **2** of 3 rows the tuner's choice is at least as fast" in text
    assert "| 64 | full | `hand` | `other` | 1.021 | 2 of 3 | 2 | 192x128 |" in text
    assert "- 2 x spills 8 bytes" in text
    drawing = ET.fromstring(report.pictures(samples)["docs/performance/tuner-d64-full.svg"])
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"other (chosen)", "hand (by hand)", "slow"} <= set(texts)


def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert tune.main(["space", "--only", "("]) == 2
    assert tune.main(["choose", str(tmp_path / "nothing.json")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all(error.startswith("tune: ") for error in errors)


@pytest.mark.skipif(not tune.SAMPLES.is_file(), reason="no timings are committed yet")
def test_the_committed_report_is_what_the_timings_give() -> None:
    for path, text in tune.files(json.loads(tune.SAMPLES.read_text(encoding="utf-8"))).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: python3 tools/bench/tune.py choose"

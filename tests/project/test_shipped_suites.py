"""The suites that we ship, planned with the real subjects (which need neither torch nor a GPU to describe themselves)."""

import importlib.util
import math
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec, Problem
from flashcore_ci.model.suite import Kind, Severity
from flashcore_ci.plan.planner import make_plan
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ("fp16", "bf16")
ENTRY_FUNCTIONS = {
    "flashcore_stream_axpy_f32",
    "flashcore_combine_f32",
    *(f"flashcore_decode_d{d}_{dtype}" for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_ragged_d{d}_{dtype}" for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_gather_d{d}_{dtype}" for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_warpgroup_d{d}_{dtype}" for d in (64, 128) for dtype in DTYPES),
    *(f"flashcore_decode_deterministic_d{d}_{dtype}" for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_d{d}_{dtype}_e4m3" for d in (64, 128, 256) for dtype in (*DTYPES, "e4m3")),
    *(f"flashcore_attention_fwd_d{d}_{dtype}_{mask}" for d in (64, 128, 256) for dtype in DTYPES for mask in ("full", "causal")),
    "flashcore_attention_prepare",
}
LOCAL = {
    *(f"flashcore_attention_{kind}_{paged}d{d}_{dtype}" for kind in ("local", "cap") for paged in ("", "paged_") for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_local_{ragged}d{d}_{dtype}" for ragged in ("", "ragged_") for d in (64, 128, 256) for dtype in DTYPES),
    *(f"flashcore_decode_local_warpgroup_d{d}_{dtype}" for d in (64, 128) for dtype in DTYPES),
}  # fmt: skip
"""Their timed rows would need limits of their own. kernel/TUNING-windows.md has their times."""
PAGED = {name.replace("fwd_", "fwd_paged_") for name in ENTRY_FUNCTIONS if "attention_fwd" in name}
E4M3 = {f"flashcore_e4m3_fwd_d{d}_{mask}" for d in (64, 128, 256) for mask in ("full", "causal")}
E4M3_BLOCK = {name.replace("fwd", "block") for name in E4M3}
TRANSPOSE = {"flashcore_e4m3_transpose_values"}
KEY_SCALES = {f"flashcore_decode_key_scales_d{d}" for d in (64, 128, 256)}
PAGED_IN_TIME = {"flashcore_attention_fwd_paged_d64_fp16_full"}
"""Of pages one is timed: their consumers have the instructions of packed rows, and twelve rows would take half a minute."""

PAGES = {1, 4, 8, 16, 32, 48, 64, 128, 256, 528, 1024}
"""Keys of a page."""


def described(suite, reference):
    spec = importlib.util.spec_from_file_location(f"subject_{reference.name}", ROOT / reference.file)
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    vars(subject)["SUBJECT"] = reference.name
    build = subject.build(ROOT)
    entries = tuple(EntrySpec(**{**entry, "requires": tuple(entry["requires"])}) for entry in build.pop("entries"))
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in build.items()}
    workloads = [workload for workload in suite.workloads if workload.subject == reference.name]
    answers = [(workload.id, subject.problem(dict(workload.params))) for workload in workloads]
    problems = tuple(Problem(workload=name, **{**a, "entries": tuple(a["entries"])}) for name, a in answers)
    build_spec = BuildSpec(**lists, entries=entries)
    return Description(subject=reference.name, file=reference.file, build=build_spec, problems=problems)


def planned(name, **options):
    suite = load(ROOT / f"gates/{name}.toml", root=ROOT)
    return make_plan(suite, tuple(described(suite, reference) for reference in suite.subjects), **options)


@pytest.fixture(scope="module")
def hopper():
    return planned("hopper")


def launches(plan, kind):
    """How many workloads of this kind launch each entry function."""
    problems = {problem.workload: problem for description in plan.descriptions for problem in description.problems}
    return Counter(entry for workload in plan.workloads_for(kind) for entry in problems[workload.id].entries)


def test_every_entry_function_is_checked_in_every_way(hopper):
    everything = ENTRY_FUNCTIONS | PAGED | E4M3 | E4M3_BLOCK | TRANSPOSE | LOCAL
    assert {entry.symbol for d in hopper.descriptions for entry in d.build.entries} == everything | KEY_SCALES
    for kind in (Kind.CORRECTNESS, Kind.SANITIZER):
        assert set(launches(hopper, kind)) == everything
    for kind in (Kind.PROFILE, Kind.TIMING):  # the loop over an E4M3 cache is the same for every type of query
        measured = set(launches(hopper, kind))
        like_decode = ("_e4m3", "ragged", "warpgroup", "deterministic", "gather")
        assert {symbol for symbol in ENTRY_FUNCTIONS if not any(kind in symbol for kind in like_decode)} <= measured
        assert "flashcore_decode_deterministic_d128_bf16" in measured
        assert {symbol.split("_")[3] for symbol in measured if "decode_gather" in symbol} == {"d64", "d128", "d256"}
        assert measured >= E4M3
        assert "flashcore_decode_ragged_d128_bf16" in measured  # its loop is that of decode
        assert measured & PAGED == PAGED_IN_TIME
        head_dims = {symbol.split("_")[2] for symbol in measured if symbol.endswith("_e4m3")}
        assert head_dims >= ({"d64", "d128", "d256"} if kind is Kind.PROFILE else {"d128", "d256"})  # D=64 scatters too much
    asked = launches(hopper, Kind.CORRECTNESS)
    assert min(n for symbol, n in asked.items() if symbol not in LOCAL and not symbol.endswith("_e4m3")) >= 4
    over_e4m3 = {symbol: count for symbol, count in asked.items() if symbol.endswith("_e4m3")}
    assert min(over_e4m3.values()) >= 2
    assert all(sum(count for symbol, count in over_e4m3.items() if f"_{d}_" in symbol) >= 6 for d in ("d64", "d128", "d256"))


def test_scales_of_keys_are_checked_in_the_suite_of_e4m3():
    suite = planned("fp8")
    assert launches(suite, Kind.CORRECTNESS).keys() >= KEY_SCALES
    assert launches(suite, Kind.SANITIZER).keys() >= KEY_SCALES
    assert "flashcore_decode_key_scales_d128" in launches(suite, Kind.TIMING)


def test_every_gate_is_asked_of_something(hopper):
    used = {check.gate.id for check in hopper.checks}
    assert len(used) == 17
    assert {check.gate.id for check in planned("hopper", compared=True).checks} - used == {"no-slower"}


def test_only_roofs_may_be_advisory_and_they_say_why(hopper):
    advisory = [check for check in hopper.checks if check.limit.severity is Severity.ADVISORY]
    assert {check.gate.id for check in advisory} <= {"sol-sm", "sol-dram"}
    assert all(check.limit.why for check in advisory)


BELOW_THE_ROOF = frozenset(
    {"decode-packed1-fp16-b64-h16-kv16-s8192-d64-page1", "decode-packed1-bf16-b64-h16-kv4-s8192-d256-page8"}
)
"""Pages without a box of TMA. The suite has their readings."""


def test_the_memory_roof_blocks_decode_from_half_a_gib_on_except_in_small_pages(hopper):
    rows = {workload.id: dict(workload.params) for workload in hopper.workloads if workload.subject == "decode"}
    bytes_of = {problem.workload: problem.bytes for description in hopper.descriptions for problem in description.problems}
    judged = [check for check in hopper.checks if check.gate.id == "sol-dram" and check.target in rows]
    assert judged
    for check in judged:
        in_small_pages = rows[check.target].get("page", 0) == 16 or check.target in BELOW_THE_ROOF
        must = bytes_of[check.target] >= 2**29 and not in_small_pages
        assert (check.limit.severity is Severity.BLOCKING) == must, check.target


def test_shapes_and_inputs_that_were_asked_for(hopper):
    attention = [dict(w.params) for w in hopper.workloads_for(Kind.CORRECTNESS) if w.subject == "attention"]
    shapes = {(p["sq"], p.get("sk", p["sq"])) for p in attention}
    expected = "1x1 1x1000 17x17 63x65 64x64 113x203 128x127 799x3 1023x1024 2048x2048 4224x4224"
    assert {tuple(map(int, shape.split("x"))) for shape in expected.split()} <= shapes
    assert {"normal", "large", "rising", "constant", "onehot"} <= {p["input"] for p in attention}
    assert {8, 7} <= {p["h"] // p["hkv"] for p in attention if "hkv" in p}
    assert {p["layout"] for p in attention if p.get("strided")} == {"bshd", "bhsd"}
    assert any(p.get("offset") for p in attention)
    assert {p["d"] for p in attention if p.get("max_ctas") == 2 and p["causal"]} == {64, 128, 256}
    assert any(p["causal"] and p["sq"] > p.get("sk", p["sq"]) for p in attention)
    assert any(p["b"] % 2 and p["h"] % 2 for p in attention)


def test_ragged_batches_that_were_asked_for(hopper):
    attention = [dict(w.params) for w in hopper.workloads_for(Kind.CORRECTNESS) if w.subject == "attention"]
    prefill = [p for p in attention if "lengths" in p and not p.get("flash")]
    assert {(p["d"], p["causal"]) for p in prefill if p["lengths"] == "edges"} == {
        (d, c) for d in (64, 128, 256) for c in (False, True)
    }
    assert all(p["h"] > p["hkv"] and p["max_ctas"] < p["b"] for p in prefill if p["lengths"] == "edges")
    assert any(p["b"] >= 100 and p["sq"] != p["sk"] for p in prefill if p["lengths"] == "ragged")


def test_the_functions_above_the_bindings_are_asked_for(hopper):
    """Dense, ragged, over a cache; masked and not; pages, groups of query heads and new keys at once."""
    flash = [(w.subject, dict(w.params)) for w in hopper.workloads_for(Kind.CORRECTNESS) if dict(w.params).get("flash")]
    assert {(subject, "lengths" in p, p["causal"]) for subject, p in flash} == {
        *(("attention", ragged, causal) for ragged in (False, True) for causal in (False, True)),
        *(("decode", True, causal) for causal in (False, True)),
    }
    assert any(
        p.get("page") and p["new"] and p["causal"] and p["sq"] > 1 and p["h"] > p["hkv"] for s, p in flash if s == "decode"
    )
    assert any(dict(w.params).get("flash") for w in planned("smoke").workloads_for(Kind.CORRECTNESS))


def test_caches_and_unused_queries_that_were_asked_for(hopper):
    """Rotary embedding, chosen caches, padding, ``seqused_q``, and chunks that cut tiles, also where tiles are counted."""
    rows = [(w.subject, dict(w.params)) for w in hopper.workloads_for(Kind.CORRECTNESS)]
    decode, prefill = ([p for subject, p in rows if subject == name] for name in ("decode", "attention"))
    assert {(p["rotary"], p["causal"]) for p in decode if p.get("rotary")} == {("pairs", True), ("halves", False)}
    assert {p["page"] > 0 for p in decode if p.get("index") and not p.get("leftpad")} == {False, True}
    assert {(p["left"] >= 0, p["chunk"] > 0, p.get("index", False)) for p in decode if p.get("leftpad")} == {
        (True, False, False),
        (False, True, True),
    }
    assert {p["left"] >= 0 for p in prefill if p.get("leftpad")} == {False, True}
    assert {p.get("page", 0) for p in prefill if p.get("used")} == {0, 16}
    assert {p["page"] for p in decode if p.get("used")} == {1, 64}
    counted = [p for p in (*decode, *prefill) if p.get("chunk") and p.get("counted")]
    assert {p["chunk"] % 128 > 0 for p in counted} == {True}
    assert {(p["sq"] > 1, p["page"] > 0) for p in decode if p in counted} == {(False, False), (True, True)}
    assert {p["d"] for p in prefill if p in counted} == {64, 128, 256}
    sanitized = [dict(w.params) for w in hopper.workloads_for(Kind.SANITIZER)]
    assert {(bool(p.get("chunk")), bool(p.get("used"))) for p in sanitized} == {(False, False), (True, False), (False, True)}


def test_prefill_reads_pages_of_every_size_that_was_asked_for(hopper):
    prefill = [dict(w.params) for w in hopper.workloads_for(Kind.CORRECTNESS) if w.subject == "attention"]
    assert {p["page"] for p in prefill if p.get("page")} == PAGES


def test_edges_of_decode_that_were_asked_for(hopper):
    decode = [dict(w.params) for w in hopper.workloads_for(Kind.CORRECTNESS) if w.subject == "decode"]
    assert {p.get("page", 0) for p in decode if p.get("lengths") == "edges"} == {0, 7, *PAGES}
    assert {1, 4, 5, 7, 16} <= {p["h"] // p["hkv"] for p in decode}
    assert max(p.get("sq", 1) for p in decode if not p.get("packed")) == max(p.get("packed", 0) for p in decode) == 16
    assert {p["page"] > 0 for p in decode if p.get("new", 0)} == {False, True}
    assert any(p["page"] and p["new"] > p["page"] for p in decode if p.get("new", 0))
    assert any(p.get("deterministic") for p in decode)
    assert {"normal", "large", "rising", "falling", "constant"} == {p["input"] for p in decode}
    sanitized = [dict(w.params) for w in hopper.workloads_for(Kind.SANITIZER) if w.subject == "decode"]
    assert {(p["d"], p["dtype"]) for p in sanitized if p.get("page") and p.get("new")} >= {
        (64, "fp16"),
        (128, "bf16"),
        (256, "fp16"),
    }
    assert any(not p.get("page") for p in sanitized)


@pytest.mark.parametrize("name", ["hopper", "smoke"])
def test_under_the_sanitizers_a_block_of_decode_goes_around_its_ring(name):
    tiles = tomllib.loads((ROOT / "kernel/variants.toml").read_text())["decode"]["tiles"]
    for workload in planned(name).workloads_for(Kind.SANITIZER):
        p = dict(workload.params)
        if workload.subject == "decode" and p["lengths"] == "ragged":
            tile = tiles[f"d{min(size for size in (64, 128, 256) if size >= p['d'])}"]
            keys = p["hkv"] * sum(round(p["sk"] * 128 ** ((i + 0.5) / p["b"] - 1)) for i in range(p["b"]))
            assert keys / p["max_ctas"] > (2 * tile["stages"] + 1) * tile["tile_keys"]


@pytest.mark.parametrize("name", ["hopper", "smoke"])
def test_under_the_sanitizers_every_pipeline_wraps(name):
    tiles = tomllib.loads((ROOT / "kernel/variants.toml").read_text())["attention"]["tiles"]
    for workload in planned(name).workloads_for(Kind.SANITIZER):
        if workload.subject != "attention":
            continue
        p = dict(workload.params)
        tile = tiles[f"d{p['d']}"]
        assert p["b"] * p["h"] * math.ceil(p["sq"] / tile["tile_m"]) >= 2 * p["max_ctas"]
        seen_by_all = p["sk"] - p["sq"] if p["causal"] or p.get("right") == 0 else p["sk"]
        assert seen_by_all >= (2 * tile["kv_stages"] + 1) * tile["tile_n"]
        assert p["sk"] % tile["tile_n"]
        assert p["sq"] % tile["tile_m"]


def test_the_smoke_suite_is_small_and_covers_its_subjects():
    plan = planned("smoke")
    assert len(plan.workloads) <= 9
    for kind in (Kind.CORRECTNESS, Kind.SANITIZER):
        assert {workload.subject for workload in plan.workloads_for(kind)} == {"attention", "decode", "stream"}
    for kind in (Kind.PROFILE, Kind.TIMING):
        assert {workload.subject for workload in plan.workloads_for(kind)} == {"attention", "stream"}
    assert plan.protocol.timing_processes == 3

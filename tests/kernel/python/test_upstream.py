"""FlashAttention-3's own tests: which cases a sample has, and what a case's result is. Its file is not here, so a stand-in is."""

from __future__ import annotations

import collections
import functools
import importlib.util
import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import cases as runner
from tools.bench import upstream as tool

KERNEL = Path(__file__).parents[3] / "kernel"
SEED = 18


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"upstream_{Path(path).parent.name}", KERNEL / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


subject, defects = load("subjects/upstream.py"), load("defects/upstream.py")
sets = defects.sound.upstream_cases = subject.upstream_cases  # which keep their plans
Case = Any


def served(count: int | None = None) -> tuple[Case, ...]:
    """Return the first cases of the order, or all."""
    return tuple(sets.plan(SEED)[:count])


def pairs(cases: Iterable[Case]) -> set[Any]:
    return {(case.test, *pair) for case in cases for pair in sets.pairs_of(case)}


@functools.cache
def all_pairs() -> set[Any]:
    return pairs(served())


def test_12000_different_cases_are_there_and_the_order_is_that_of_the_seed() -> None:
    assert len(set(served())) == len(served()) == 41_235
    assert len(set(served(12000))) == 12_000
    assert [case for group in sets.GROUPS for case in sets.choose(600, group, SEED)] == sorted(
        served(600), key=lambda case: sets.GROUPS.index(sets.group_of(case))
    )
    assert sum(len(sets.choose(sample, group, SEED)) for sample in sets.SAMPLES for group in sets.GROUPS) == 12_000
    first = "varlen_output dtype=bf16 mha_type=mqa has_qv=False deterministic=False softcap=0.0 local=True causal=False d=64"
    assert (
        str(served()[1]) == f"test_flash_attn_{first} add_unused_qkv=True seqlen_q=1 seqlen_k=1"
    )  # pinned: evidence names samples
    assert sets.plan(19)[:900] != served()[:900]


def test_the_suite_holds_the_number_of_cases_of_every_group() -> None:
    suite = tomllib.loads((KERNEL.parent / "gates/upstream.toml").read_text(encoding="utf-8"))
    limits = {row["on"]: row["value"] for gate in suite["gate"] if gate["id"] == "upstream-served" for row in gate["limits"]}
    fp8 = subject.upstream_fp8
    counts = {f"*{g}-{fp8.SAMPLE}": len(fp8.choose(fp8.SAMPLE, g, SEED)) for g in fp8.GROUPS}
    assert limits == {f"*{g}-{n}": len(sets.choose(n, g, SEED)) for n in sets.SAMPLES for g in sets.GROUPS} | counts
    assert sum(limits.values()) - 12_000 == sum(counts.values()) == fp8.SAMPLE
    planted = tomllib.loads((KERNEL.parent / "gates/upstream-defects.toml").read_text())["workload"][0]["cases"]
    assert {case["defect"] for case in planted} == {*defects.FEATURES, *defects.BUGS, *defects.edits.EDITS}
    assert {workload["seed"] for workload in suite["workload"]} == {SEED}


@pytest.mark.parametrize("sample", [600, 2500])
def test_a_sample_has_every_pair_of_parameter_values(sample: int) -> None:
    assert pairs(served(sample)) == all_pairs()


def test_cases_apart_have_every_pair_too_and_none_is_served() -> None:
    apart = sets.plan(SEED, apart=True)
    assert pairs(apart[:500]) == pairs(apart)
    assert {sets.group_of(case) for case in apart} == set(sets.APART_GROUPS)
    assert {sets.group_of(case) for case in served()} == set(sets.GROUPS)
    assert all(case.dv or case.test == "combine" for case in apart)
    assert not any(case.dv or dict(case.params).get("has_qv") for case in served())


def test_no_case_is_skipped_upstream_or_differs_in_random_numbers_only() -> None:
    for p in (case.arguments for case in served() if case.test == "kvcache"):
        assert not p["page_size"] or p["seqlen_k"] % p["page_size"] == 0
        assert p["new_kv"] or (p["seqlen_new_eq_seqlen_q"] and not p["rotary_fraction"])
        assert p["rotary_fraction"] or not p["rotary_interleaved"]


def test_the_smallest_sample_finds_a_wrong_value_in_any_one_feature() -> None:
    found = collections.Counter(feature for case in served(600) for feature in sets.list_features(case))
    known = {feature for case in served() for feature in sets.list_features(case)}
    assert set(found) == known
    assert min(number for feature, number in found.items() if feature not in {"cluster", "varlen_combine_linearize"}) >= 10


class Values:
    """Numbers of a tensor, as far as a planted defect needs them."""

    def __init__(self) -> None:
        self.numbers = [0.0, 0.0]

    def detach(self) -> Values:
        return self

    def view(self, _size: int) -> list[float]:
        return self.numbers


def make_tests() -> Any:
    """Stand-ins for upstream's file: its parameters are its options, and a result other than zero is wrong."""

    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False, window_size: Any = (-1, -1), softcap: float = 0.0) -> Any:
        if v != q:
            raise ValueError(f"v: has dimension {v}, q has {q}")
        return Values()

    def flash_attn_with_kvcache(q: Any, k_cache: Any, k: Any = None, page_table: Any = None, rotary_cos: Any = None) -> Any:
        return Values(), Values()

    def test_output(d: int, causal: bool, local: bool, softcap: float, seqlen_q: int, dtype: Any, **_: Any) -> None:
        assert dtype in {"bf", "half"}
        if seqlen_q < 0:
            pytest.skip("never")
        for dv, _chunk in tests.itertools.product([128, d] if d == 192 else [256, 512, d], [0]):
            for _pack, _splits in tests.itertools.product([False, True], [1, 3]):
                window = (5, 5) if local else (-1, -1)
                assert tests.flash_attn_func(d, 1, dv, causal=causal, window_size=window, softcap=softcap).numbers == [0.0, 0.0]

    def test_kvcache(new_kv: bool, page_size: int | None, rotary_fraction: float, d: int, **_: Any) -> None:
        for _dv, _chunk in tests.itertools.product([d], [3, 0]):
            out, _ = tests.flash_attn_with_kvcache(d, 1, new_kv or None, page_size, rotary_fraction or None)
            assert out.numbers == [0.0, 0.0]

    tests: Any = SimpleNamespace(
        flash_attn_func=flash_attn_func, flash_attn_varlen_func=flash_attn_func, flash_attn_with_kvcache=flash_attn_with_kvcache,
        test_flash_attn_output=test_output, test_flash_attn_varlen_output=test_output, test_flash_attn_kvcache=test_kvcache,
        torch=SimpleNamespace(bfloat16="bf", float16="half"),
    )  # fmt: skip
    return tests


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(runner, "_run_profiled", lambda subject, case: (*runner.run_case(subject, case), {""}))
    fake: Any = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None, OutOfMemoryError=MemoryError))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(runner, "context_error", lambda: "")
    found = make_tests()
    for module in (subject, defects.sound):
        monkeypatch.setattr(module, "load_tests", lambda: found)
    return found


def measure(module: Any, group: str, **params: Any) -> dict[str, Any]:
    work = SimpleNamespace(params={"sample": 600, "group": group, **params}, seed=SEED)
    found: dict[str, Any] = runner.measure(module, work, (), {})
    return found


@pytest.mark.parametrize("group", ["dense", "ragged-softcap", "cache-paged", "append", "rotary-paged"])
def test_sound_functions_pass(tests: Any, group: str) -> None:
    cases = [case for case in sets.choose(600, group, SEED) if case.test in {"output", "varlen_output", "kvcache"}]
    for module, wrapped in ((subject, lambda case: case), (defects, lambda case: ("sound", case))):
        assert {runner.run_case(module, wrapped(case)) for case in cases} == {("passed", "")}


@pytest.mark.parametrize(
    ("defect", "group"),
    [("causal", "dense"), ("window", "ragged-window"), ("softcap", "dense-softcap"), ("pages", "cache-paged"),
     ("append", "append"), ("rotary", "rotary")],
)  # fmt: skip
def test_the_smallest_sample_finds_a_planted_defect(tests: Any, defect: str, group: str) -> None:
    kept = dict(vars(tests))
    cases = [case for case in sets.choose(600, group, SEED) if case.test in {"output", "varlen_output", "kvcache"}]
    found = collections.Counter(runner.run_case(defects, (defect, case))[0] for case in cases)
    assert found["wrong"] > 0
    assert found["wrong"] + found["passed"] == len(cases)
    assert {name: getattr(tests, name) for name in defects.FUNCTIONS} == {name: kept[name] for name in defects.FUNCTIONS}


def test_values_of_another_dimension_are_cases_of_their_own_and_refused_by_name(tests: Any) -> None:
    outcome = measure(subject, "values")
    assert outcome["readings"] == {"cases/passed": 0, "cases/wrong": 0, "cases/refused": len(sets.choose(600, "values", SEED))}
    assert all(
        line.startswith("refused: test_flash_attn_") and ": NotImplementedError: v: has dimension" in line
        for line in outcome["cases"]
    )
    assert measure(defects, "append-paged", defect="refuses")["readings"]["cases/passed"] == 0
    assert any(note.startswith("refused: ") and "dv 128" in note and "dv 512" in note for note in outcome["notes"])


def test_errors_that_name_no_argument_are_wrong(tests: Any) -> None:
    case = next(case for case in served() if case.test == "output")
    for error, result in (
        (ValueError("cannot do it"), "wrong"), (RuntimeError("q: this is a bug"), "wrong"), (ValueError("q: too long"), "refused"),
        (NotImplementedError("qv"), "refused"),
    ):  # fmt: skip

        def fail(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        tests.flash_attn_func = fail
        assert runner.run_case(subject, case)[0] == result


def test_a_case_that_upstream_skips_or_does_not_have_is_wrong(tests: Any) -> None:
    case = next(case for case in served() if case.test == "output")
    skipped = case._replace(params=tuple((n, (-1, 1) if n == sets.LENGTHS else v) for n, v in case.params))
    assert runner.run_case(subject, skipped) == ("wrong", "ValueError: upstream skips it: never")
    result, why = runner.run_case(subject, case._replace(dv=333))
    assert (result, why.split(" of ")[0]) == ("wrong", "ValueError: upstream has no values")


def test_the_peer_refuses_what_its_package_was_built_without(tests: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_package", "")
    subject.cases({"sample": 600, "group": "dense", "package": "fa3"}, SEED)
    assert subject.is_peer()
    with pytest.raises(ValueError, match="package: this process has fa3"):
        subject.cases({"sample": 600, "group": "dense"}, SEED)
    tests.flash_attn_func = lambda *_, **__: (_ for _ in ()).throw(RuntimeError("This build does not support softcap"))
    assert runner.run_case(subject, next(case for case in served() if case.test == "output"))[0] == "refused"


def test_the_library_has_all_kernels_and_the_digests_cover_the_whole_package() -> None:
    made = subject.build(KERNEL.parent)
    others = [load(f"subjects/{name}.py").build(KERNEL.parent)["entries"] for name in ("attention", "combine", "decode", "e4m3")]
    launched = {entry["symbol"] for entries in others for entry in entries}  # all that its launchers name
    assert {entry["symbol"] for entry in made["entries"]} == launched | set(subject.BLOCK_ENTRIES)
    named = subject.problem({"sample": 600, "group": "dense"})["entries"]
    assert set(named) == {symbol for symbol in launched if "e4m3" not in symbol and "key_scales" not in symbol}
    assert {path.relative_to(KERNEL.parent).as_posix() for path in (KERNEL / "flashcore").rglob("*.py")} < set(made["binding"])


@pytest.mark.parametrize("params", [{"sample": 601, "group": "dense"}, {"sample": 600, "group": "sparse"}])
def test_an_unknown_sample_or_group_is_named(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(sample: .* is 601|group: .* is 'sparse')$"):
        subject.problem(params)


def test_only_the_pinned_files_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(subject.FOLDER, raising=False)
    with pytest.raises(FileNotFoundError, match="names no folder with test_flash_attn"):
        subject.find_files(subject.FOLDER, subject.FILES)
    monkeypatch.setenv(subject.FOLDER, str(tmp_path))
    (tmp_path / "test_flash_attn.py").write_text("assert True")
    with pytest.raises(FileNotFoundError, match="is another version"):
        subject.find_files(subject.FOLDER, subject.FILES)


def marked(test: str) -> Any:
    axes = {**sets.TESTS[test]}
    if test in sets.SHAPES:
        axes[sets.LENGTHS] = [tuple(map(int, shape.split("x"))) for shape in sets.SHAPES[test].split()]
    types = {"bf16": "bf", "fp16": "half", "fp32": "float"}
    marks = [
        SimpleNamespace(name="parametrize", args=(name, [types[v] for v in values] if name == "dtype" else list(values)))
        for name, values in axes.items()
    ]
    return SimpleNamespace(pytestmark=marks)


def test_other_parameters_upstream_are_an_error() -> None:
    tests: Any = SimpleNamespace(torch=SimpleNamespace(bfloat16="bf", float16="half", float32="float", float8_e4m3fn="fp8"))
    for test in sets.TESTS:
        setattr(tests, f"test_flash_attn_{test}", marked(test))
        if test in subject.upstream_fp8.TESTS:
            marks = getattr(tests, f"test_flash_attn_{test}").pytestmark
            next(mark for mark in marks if mark.args[0] == "dtype").args[1].append("fp8")
    subject._compare(tests)
    tests.test_flash_attn_kvcache.pytestmark[3].args[1].append((True, True))
    with pytest.raises(ValueError, match="test_flash_attn_kvcache: causal,local: upstream has"):
        subject._compare(tests)


def test_the_tool_runs_a_shard_and_counts_each_case_once(
    tests: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "load_subject", lambda: subject)
    monkeypatch.setattr(tool, "time", SimpleNamespace(monotonic=lambda: 0.0))
    files = [tmp_path / f"{i}.jsonl" for i in range(2)]
    for i, file in enumerate(files):
        argv = ["upstream.py", "run", str(file), "--group", "dense-window", "--group", "values", "--shard", f"{i}/2"]
        monkeypatch.setattr(sys, "argv", argv)
        assert tool.main() == 0
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    window, values = (len(sets.choose(600, group, SEED)) for group in ("dense-window", "values"))
    assert len({row["case"] for row in rows}) == len(rows) == window + values
    assert tool.table([*files, files[0]]) == 0
    assert f"| all | {window} | 0 | {values} |" in capsys.readouterr().out

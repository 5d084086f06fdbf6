"""What asks less than the base, and what does not."""

from dataclasses import replace

import pytest
from bars import ENTRIES, SELFTEST, SUITE, WAIVERS, accept, blocks, describe, edit, judged, read
from factories import make_entry_spec

from flashcore_ci.model.codes import LOOSENING, Code
from flashcore_ci.plan import bar, stricter

NEW_GATE = '\n[[gate]]\nid = "racecheck"\ntitle = "x"\nevidence = "sanitizer"\nmetric = "racecheck/findings"\nrule = "=="\nlimits = [{ value = 0, unit = "count" }]\nwhy = "x"\nowner = "x"\n'
NEW_WORKLOAD = '\n[[workload]]\nid = "more"\nsubject = "scale"\nroof = "memory"\ncollect = ["correctness"]\ntags = ["normal"]\n'


def codes(tmp_path, suite=SUITE, waivers=WAIVERS, **changes):
    base, head = read(tmp_path / "base"), read(tmp_path / "head", suite, waivers, **changes)
    return {change.where: change.code for change in bar.compare(base, head).changes}


def test_the_same_suite_asks_the_same(tmp_path):
    assert codes(tmp_path) == {}


@pytest.mark.parametrize(
    "edits",
    [
        [('title = "in bounds"', 'title = "other words"'), ('why = "because"', 'why = "other reasons"')],
        [('owner = "kernels"', 'owner = "others"')],
        [('unit = "count" }]', 'unit = "count", why = "because" }]')],
        [("value = 2e-3", "value = 1e-3"), ("value = 0.3", "value = 0.2")],
        [("min_samples = 5", "min_samples = 9"), ("repeats = 3", "repeats = 5"), ("timing = 60", "timing = 59")],
        [('on = ["big-*"]', 'on = ["edge", "big-*"]'), ('"sanitizer"]\n', '"sanitizer", "timing"]\n')],
        [('limits = [{ on = "big-*"', 'limits = [{ on = "big-1", value = 1e-6, unit = "abs" }, { on = "big-*"')],
        [('why = "because"\nowner = "kernels"\n', f'why = "because"\nowner = "kernels"\n{NEW_GATE}')],
        [("n = [1, 2]", "n = [1, 2, 4]")],
        [("\n[[gate]]", f"{NEW_WORKLOAD}\n[[gate]]")],
    ],
)
def test_words_and_stricter_questions_are_free(tmp_path, edits):
    assert codes(tmp_path, edit(SUITE, *edits)) == {}


def test_a_shorter_or_absent_waiver_and_new_defects_are_free(tmp_path):
    more = {**SELFTEST, "clean": [*SELFTEST["clean"], "more-*"], "defect": [*SELFTEST["defect"], {"name": "new"}]}
    assert codes(tmp_path, waivers=WAIVERS.replace("-13", "-12"), selftest=more) == {}
    assert codes(tmp_path, waivers=WAIVERS.replace("known", "other words")) == {}
    assert codes(tmp_path, waivers="") == {}


def test_stricter_budgets_and_a_new_entry_function_with_the_same_are_free(tmp_path):
    tight = replace(
        ENTRIES[0], max_registers=60, requires=("HGMMA", "LDG", "STG"), max_waits_per_hgmma=0.25, source="elsewhere.cu"
    )
    new = make_entry_spec("scale_new", max_registers=96, requires=("HGMMA",), max_waits_per_hgmma=0.5)
    entries = (tight, replace(ENTRIES[1], dynamic_shared_bytes=9), new)
    assert codes(tmp_path, descriptions=(describe(("big-1", "big-2", "edge"), entries),)) == {}


def test_each_kind_of_change_has_its_code(tmp_path):
    gone = edit(SUITE, ('id = "memcheck"', 'id = "other"'))
    assert codes(tmp_path, gone)["check memcheck on edge"] == Code.CHECK_REMOVED
    excluded = edit(SUITE, ('tags = ["normal"]\nwhy', 'tags = ["large"]\nwhy'))
    assert codes(tmp_path, excluded)["check finite on edge"] == Code.NEWLY_EXCLUDED
    advisory = edit(SUITE, ("value = 2e-3,", 'value = 2e-3, severity = "advisory",'))
    assert codes(tmp_path, advisory)["check max-diff on big-1"] == Code.MADE_ADVISORY
    assert codes(tmp_path, waivers=WAIVERS.replace("12-13", "12-14"))["waiver max-diff/edge"] == Code.NEWLY_WAIVED
    assert codes(tmp_path, references={})["reference noise/h200.json"] == Code.REFERENCE_CHANGED
    assert codes(tmp_path, dependencies={})["dependency uv.lock"] == Code.DEPENDENCY_CHANGED
    assert codes(tmp_path, selftest={})["selftest-row defect cut log"] == Code.SELFTEST_LOOSENED
    assert codes(tmp_path, subjects={"scale": "t"}) == {"subject-file scale": Code.SUBJECT_CHANGED}


def test_a_new_target_is_asked_what_the_bases_gates_ask_of_it(tmp_path):
    loose = edit(
        SUITE,
        ("n = [1, 2]", "n = [1, 2, 4]"),
        ('limits = [{ on = "big-*"', 'limits = [{ on = "big-4", value = 9.0, unit = "abs" }, { on = "big-*"'),
    )
    assert codes(tmp_path, loose)["check max-diff on big-4"] == Code.CHECK_LOOSENED


def test_a_field_that_nobody_knows_counts():
    assert not stricter.is_as_strict("workload", "future", {"future": 1}, {"future": 2})
    assert not stricter.is_as_strict("workload", "future", {}, {"future": 2})
    assert not stricter.is_as_strict("protocol", "repeats", {"repeats": 1}, {"repeats": True})
    assert not stricter.is_as_strict("check", "value", {"rule": "<", "value": 1.0}, {"rule": "<", "value": float("nan")})
    assert not stricter.is_as_strict("check", "value", {"rule": "?", "value": 1.0}, {"rule": "?", "value": 2.0})


def test_both_digests_depend_on_all_that_differs(tmp_path):
    base = read(tmp_path / "base")
    looser = [edit(SUITE, ("value = 2e-3", value)) for value in ("value = 3e-3", "value = 4e-3")]
    looser.append(edit(looser[0], ("repeats = 3", "repeats = 4")))  # asks more, and is another difference
    found = [bar.compare(base, read(tmp_path / str(index), text)) for index, text in enumerate(looser)]
    assert len({difference.digest for difference in found}) == 3
    assert len({difference.base for difference in found}) == 1
    assert bar.compare(read(tmp_path / "other", looser[2]), base).base != found[0].base


def test_the_peak_of_a_link_counts_where_a_gate_judges_a_share_of_it(tmp_path):
    gate = NEW_GATE.replace("racecheck/findings", "link/share").replace("sanitizer", "timing").replace('"count"', '"%"')
    gate = gate.replace("racecheck", "link-share").replace("==", ">=").replace("value = 0", "value = 34")
    faster, slower = (edit(SUITE, ("bandwidth = 4.8e12", f"bandwidth = 4.8e12\nlink = {link}")) for link in ("450e9", "1e9"))
    assert codes(tmp_path, faster) == codes(tmp_path, faster + gate) == {}
    base, head = read(tmp_path / "base", faster + gate), read(tmp_path / "head", slower + gate)
    changes = {change.where: (change.code, change.before) for change in bar.compare(base, head).changes}
    assert changes["gate link-share"] == (Code.CHECK_LOOSENED, "peak 450000000000.0")
    assert "ridge" not in changes


def test_records_of_one_name_do_not_hide_each_other():
    found = bar._selftest({"defect": [{"name": "a", "gate": "x"}, {"name": "a", "gate": "y"}], "suite": "s", "clean": ["suite"]})
    assert len(found) == 4


def test_a_new_suite_is_accepted_as_a_whole_or_blocks(tmp_path):
    difference = bar.bar_of_new(read(tmp_path / "head"), "gates/new.toml")
    other = bar.bar_of_new(read(tmp_path / "other", edit(SUITE, ("n = 3", "n = 4"))), "gates/new.toml")
    assert difference.changes
    assert difference.base == other.base
    assert difference.digest != other.digest


def test_an_acceptance_stops_the_block_and_only_with_both_digests(tmp_path):
    base, head = read(tmp_path / "base"), read(tmp_path / "head", edit(SUITE, ("value = 2e-3", "value = 1")))
    difference = bar.compare(base, head)
    assert {change.code for change in difference.changes} <= LOOSENING
    assert blocks(judged(base, head))
    assert not blocks(judged(base, head, accept(difference)))
    assert blocks(judged(base, head, accept(difference, base="0" * 64)))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (4, 2), (2, 4)])
def test_another_number_of_gpus_is_another_question(tmp_path, before, after):
    base, head = (read(tmp_path / str(count), SUITE) for count in (before, after))
    sides = [
        replace(side, suite=replace(side.suite, workloads=tuple(_on_gpus(workload, count) for workload in side.suite.workloads)))
        for side, count in ((base, before), (head, after))
    ]
    found = {change.where: change.code for change in bar.compare(*sides).changes}
    assert found["workload big-1"] is Code.CHECK_LOOSENED


def _on_gpus(workload, count):
    return replace(workload, params=tuple(sorted((*workload.params, *([("gpus", count)] if count > 1 else [])))))

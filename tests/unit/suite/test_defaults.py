"""Every key that a beginner cannot know has a default, which is as visible as a written value."""

import pytest
from suite_texts import GATE, HEAD, WHOLE

from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.suite import Kind, Rule, Statistic
from flashcore_ci.suite.defaults import STANDARD_GATES, complete
from flashcore_ci.suite.loader import load

SMALL = """
[[subject]]
name = "scale"
file = "scale.py"
[[workload]]
id = "big-{n}"
each = { n = [1, 2] }
"""


def test_a_suite_of_a_subject_and_a_workload_is_whole(read):
    suite = read(SMALL)
    assert (suite.name, suite.ridge.device, suite.protocol.timing_processes, suite.protocol.repeats) == (
        "tiny",
        "NVIDIA H200",
        5,
        100,
    )
    assert [gate.id for gate in suite.gates] == list(STANDARD_GATES)
    assert suite.workloads[0].collect == (Kind.CORRECTNESS, Kind.SANITIZER, Kind.COMPARISON)
    assert suite.workloads[0].subject == "scale"
    assert {gate.owner for gate in suite.gates} == {"maintainers"}
    assert dict(suite.defaults)["protocol.repeats"] == "100"
    assert dict(suite.defaults)["gate[1].rule"] == '"<="'


def test_what_is_written_has_no_default(read):
    assert read(WHOLE).defaults == ()


def test_a_gate_needs_its_metric_and_limit_only(read):
    suite = read(SMALL + '[[gate]]\nid = "steady"\nmetric = "cycles/gpu/cold"\nlimits = [{ value = 2 }]\n')
    (gate,) = suite.gates
    assert (gate.statistic, gate.min_samples, gate.rule) == (Statistic.RELATIVE_STD, 5, Rule.AT_MOST)
    assert gate.limits[0].unit == "%"
    assert suite.workloads[0].collect == (Kind.TIMING,)


@pytest.mark.parametrize("metric", ["shared/bytes", "time/gpu/profiled", "launches/call", "memcheck/launches"])
def test_a_metric_without_a_direction_has_no_default_rule(problems, metric):
    found = problems(SMALL + f'[[gate]]\nid = "x"\nmetric = "{metric}"\nlimits = [{{ value = 2 }}]\n')
    assert any("gate[0] (x).rule: this key is missing" in line for line in found)


def test_a_share_of_a_peak_is_a_floor(read):
    suite = read(SMALL + '[[gate]]\nid = "x"\nmetric = "sol/dram"\nlimits = [{ value = 80 }]\n')
    assert suite.gates[0].rule is Rule.AT_LEAST


def test_a_misspelt_gate_does_not_become_the_standard_ones(problems):
    assert any('unknown key "gates"' in line for line in problems(SMALL + "[[gates]]\n"))


def test_isolated_subjects_are_not_asked_for_what_needs_their_process(read, checkout):
    (checkout / "candidate.py").write_text("from elsewhere import *\n")
    suite = read(SMALL.replace("[[workload]]", 'candidate = ["candidate.py"]\n[[workload]]'))
    assert suite.workloads[0].collect == (Kind.CORRECTNESS, Kind.COMPARISON)
    assert not any(gate.evidence is Kind.SANITIZER for gate in suite.gates)


def test_subjects_may_be_in_a_folder_that_the_project_names(checkout):
    (checkout / "pyproject.toml").write_text('[tool.flashcore-ci]\nsubjects = "kernels"\n')
    (checkout / "kernels").mkdir()
    (checkout / "kernels/scale.py").write_text("from elsewhere import *\n")
    (checkout / "gates/tiny.toml").write_text(SMALL.replace('file = "scale.py"\n', ""))
    suite = load(checkout / "gates/tiny.toml", root=checkout)
    assert suite.subjects[0].file == "kernels/scale.py"


@pytest.mark.parametrize("value", [3, [], {}, [1], "x", None, [{}], [[]]])
@pytest.mark.parametrize("key", ["name", "ridge", "protocol", "subject", "workload", "gate"])
def test_no_value_stops_the_completion(key, value):
    complete({key: value}, stem="x", subjects="s")
    complete(
        {"gate": [{"id": value, "metric": value, "limits": value, "evidence": value}], "subject": [{"name": value}]}, stem="x"
    )
    complete({"workload": [{"subject": value}], "subject": [{"name": value, "trust": "none"}]}, stem="x", subjects="s")


def test_the_document_that_was_read_stays_as_it_is():
    document = {"subject": [{"name": "a"}], "gate": [{"id": "x", "metric": "diff/max", "limits": [{"value": 1}]}], "protocol": {}}
    complete(document, stem="x", subjects="s")
    assert document["gate"] == [{"id": "x", "metric": "diff/max", "limits": [{"value": 1}]}]
    assert document["protocol"] == {}


def test_every_metric_says_what_it_is():
    assert all(metric.meaning for metric in METRICS.values())


def test_all_keys_wrong_are_all_named_with_their_lines(checkout):
    wrong = HEAD.replace("repeats", "repeets").replace("[ridge]", "[rigde]") + (
        '[[subject]]\nnme = "scale"\n[[workload]]\nidd = "x"\nrof = "memory"\ncolect = []\n' + GATE.replace("metric", "metrc")
    )
    (checkout / "gates/tiny.toml").write_text(wrong)
    with pytest.raises(Exception, match="repeets") as caught:
        load(checkout / "gates/tiny.toml", root=checkout)
    lines = wrong.split("\n")
    for word, meant in (
        ("repeets", "repeats"),
        ("rigde", "ridge"),
        ("nme", "name"),
        ("idd", "id"),
        ("rof", "roof"),
        ("metrc", "metric"),
    ):
        (line,) = [line for line in caught.value.problems if f'unknown key "{word}"' in line]
        assert f'(did you mean "{meant}"?)' in line
        number = int(line.split(":")[1])
        assert word in lines[number - 1]

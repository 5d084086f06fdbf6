import json

import pytest

from flashcore_ci.suite.expand import expand, fill
from flashcore_ci.suite.tables import WorkloadTable


def table(**changes):
    return WorkloadTable.model_validate_json(json.dumps({"id": "w", "subject": "s", "collect": ["correctness"], **changes}))


def test_one_table_without_axes_is_one_workload():
    (workload,) = expand(table(params={"b": 2, "a": 1}))
    assert workload.params == (("a", 1), ("b", 2))


def test_cases_come_in_order_and_axes_like_nested_loops():
    found = expand(table(id="{x}{y}{z}", cases=[{"x": 1}, {"x": 2}], each={"y": ["a", "b"], "z": [0, 1]}))
    assert [workload.id for workload in found] == ["1a0", "1a1", "1b0", "1b1", "2a0", "2a1", "2b0", "2b1"]


def test_axes_win_over_cases_and_cases_over_params():
    (workload,) = expand(table(params={"a": 0, "b": 0, "c": 0}, cases=[{"b": 1, "c": 1}], each={"c": [2]}))
    assert dict(workload.params) == {"a": 0, "b": 1, "c": 2}


def test_tags_are_templates_too():
    (workload,) = expand(table(params={"input": "large"}, tags=["{input}", "fixed"]))
    assert workload.tags == ("large", "fixed")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("d{d}", "d64"),
        ("d{d}{causal?-causal}", "d64-causal"),
        ("d{d}{strided?-strided}", "d64"),
        ("{causal}-{half}", "true-0.5"),
        ("plain", "plain"),
    ],
)
def test_fields_are_filled(template, text):
    assert fill(template, {"d": 64, "causal": True, "strided": False, "half": 0.5}) == text


@pytest.mark.parametrize("template", ["{no}", "{no?x}"])
def test_a_field_that_is_no_parameter_is_named(template):
    with pytest.raises(KeyError, match="no"):
        fill(template, {})

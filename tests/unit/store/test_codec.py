import json
import math

import pytest
from evidence_factories import good_evidence
from factories import make_gate, make_plan, make_problem, make_suite, make_workload
from hypothesis import given
from hypothesis import strategies as st
from report_factories import make_report

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Attempt, Evidence
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.verdict import Report
from flashcore_ci.store.codec import decode, encode, indented, schema_of

PROBLEM = make_problem()


@pytest.mark.parametrize("record", [make_report(), make_plan(), make_suite(), good_evidence(), make_gate()], ids=type)
def test_what_is_written_is_read_back(record):
    assert decode(type(record), encode(record), where="x") == record


def test_the_same_record_gives_the_same_bytes():
    assert encode(make_report()) == encode(make_report())


def test_numbers_keep_their_kind():
    workload = make_workload(params=(("a", 1), ("b", 1.0), ("c", True), ("d", "1")))
    params = decode(type(workload), encode(workload), where="x").params
    assert [type(value) for _, value in params] == [int, float, bool, str]


SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)


@given(st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)))
def test_json_is_indented_as_the_standard_library_does(value):
    assert indented([value]) == json.dumps([value], indent=1, ensure_ascii=False)


@pytest.mark.parametrize(
    "number", [1e-05, -1.5e-05, 0.0001, 0.00012, 9.9e-05, 1e15, 1e16, -1.25e22, 10.00001, 5e-324, -0.0, 10**30]
)
def test_a_number_is_written_as_the_standard_library_does(number):
    value = {"a": number, "b": [number], f'": {number}': f" {number}"}
    assert indented(value) == json.dumps(value, indent=1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_that_json_lacks_is_written(value):
    with pytest.raises(ValueError):
        encode(make_problem(flops=value))


def test_half_a_surrogate_pair_does_not_stop_a_report():
    assert b"a?b" in encode(make_problem("a\udc80b"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"workload": "a", "flops": 1, "bytes": 2, "entries": [], "more": 1}', "f.json: more:"),
        ('{"workload": "a", "flops": true, "bytes": 2, "entries": []}', "f.json: flops:"),
        ('{"workload": "a", "flops": "1", "bytes": 2, "entries": []}', "f.json: flops:"),
        ('{"workload": "a", "flops": 1, "bytes": 2, "entries": [1]}', "f.json: entries.0:"),
        ('{"workload": "a", "flops": 1, "bytes": 2}', "f.json: entries:"),
        ('{"workload": "a", "flops": NaN, "bytes": 2, "entries": []}', "NaN is not a number"),
        ('{"workload": "a", "flops": -Infinity, "bytes": 2, "entries": []}', "-Infinity is not a number"),
        ('{"workload": "a", "flops": 1e999, "bytes": 2, "entries": []}', "1e999 is too large"),
        ('{"workload": "a", "flops": 1, "bytes": 2, "entries": [], "flops": 3}', "a key occurs twice"),
        ('{"workload": "\\ud800", "flops": 1, "bytes": 2, "entries": []}', "the whole file: JSON is needed"),
        ('{"workload": "a", "flops": 1', "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "f.json:"),
        ("null", "f.json:"),
    ],
)
def test_anything_else_is_refused_in_one_line(text, words):
    with pytest.raises(EvidenceError) as caught:
        decode(Problem, text.encode(), where="f.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.fix == "collect or build again, or restore the file"


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(EvidenceError, match="not valid JSON"):
        decode(Problem, b"\xff\xfe", where="f.json")


def test_a_record_refuses_its_own_nonsense():
    with pytest.raises(EvidenceError, match="has a unit"):
        decode(Measured, b'{"value": 1.0, "unit": "", "kind": "measured"}', where="x")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"schema": "evidence-v2"', b'"schema": "evidence-v3"', "schema:"),
        (b',\n "schema": "evidence-v2"', b"", "schema: the field is absent"),
        (
            b'"unit": "abs",\n      "kind": "measured"',
            b'"unit": "abs"',
            r"observations\.\d\.readings\.0\.1\.kind: the field is absent",
        ),
    ],
)
def test_defaults_are_for_builders_not_for_files(old, new, words):
    data = encode(good_evidence())
    assert old in data
    with pytest.raises(EvidenceError, match=words):
        decode(Evidence, data.replace(old, new), where="x")


def test_the_schema_asks_for_every_field_and_no_other():
    schema = schema_of(Problem)
    assert schema["required"] == ["workload", "flops", "bytes", "entries", "estimated", "output_shapes"]
    assert schema["additionalProperties"] is False


def test_recordings_from_before_comparisons_are_read():
    data = encode(good_evidence())
    old = data.replace(b',\n   "base": null', b"")
    assert old != data
    assert b'"base"' not in old
    assert decode(Evidence, old, where="x") == good_evidence()


def test_an_attempt_from_before_shards_were_named_is_read():
    old = b'{"number": 2, "gpu": "GPU-1", "reason": ""}'
    assert decode(Attempt, old, where="x") == Attempt(number=2, gpu="GPU-1", shard_index=None)


def test_a_report_of_the_last_version_names_no_judged_commit():
    written = json.loads(encode(make_report()))
    del written["judged_commit"]
    assert decode(Report, json.dumps(written).encode(), where="report.json").judged_commit == ""

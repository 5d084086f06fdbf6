"""Whatever record we write, we read the same record back; whatever is altered, we notice."""

import json
import re

import pytest
from evidence_factories import make_observation
from factories import make_workload
from hypothesis import given
from hypothesis import strategies as st
from report_factories import make_report, make_verdict

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.verdict import Reason, Report
from flashcore_ci.store.codec import OPTIONAL_FIELDS, decode, encode

MAX_LOG_RATIO = "1" + "0" * 400
text = st.text(max_size=20)  # hypothesis leaves out surrogates, which UTF-8 cannot hold
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = text | st.integers(-(2**64) + 1, 2**64 - 1) | finite | st.booleans()
readings = st.builds(Measured, value=finite, unit=st.text(min_size=1, max_size=5)) | st.builds(
    Missing, code=st.sampled_from(Code), message=text
)
samples = st.builds(Samples, values=st.lists(finite, max_size=5).map(tuple), unit=text)
findings = st.builds(Finding, tool=text, message=text, kernel=text, file=text, line=st.integers(0, 10**6))
observations = st.builds(
    make_observation,
    kind=st.sampled_from(Kind),
    target=text,
    readings=st.dictionaries(text, readings, max_size=4).map(lambda found: tuple(found.items())),
    samples=st.dictionaries(text, samples, max_size=4).map(lambda found: tuple(found.items())),
    findings=st.lists(findings, max_size=3).map(tuple),
    notes=st.lists(text, max_size=3).map(tuple),
    missing=st.none() | st.builds(Missing, code=st.sampled_from(Code), message=text),
    seconds=finite,
)
workloads = st.builds(
    make_workload, params=st.dictionaries(text, scalars, max_size=5).map(lambda found: tuple(sorted(found.items())))
)
reasons = st.builds(
    Reason, code=st.sampled_from(Code), message=text, facts=st.lists(st.tuples(text, text), max_size=3).map(tuple)
)


def kinds(record):
    return [type(value) for _, value in record.params]


@given(observations)
def test_observations(observation):
    assert decode(Observation, encode(observation), where="x") == observation


@given(workloads)
def test_workloads_keep_the_kinds_of_their_parameters(workload):
    again = decode(Workload, encode(workload), where="x")
    assert again == workload
    assert kinds(again) == kinds(workload)


@given(st.lists(st.builds(make_verdict, target=text, reason=reasons, reading=readings, limit=finite), max_size=3))
def test_reports(verdicts):
    report = make_report(verdicts)
    assert decode(Report, encode(report), where="x") == report


@given(st.binary(max_size=200))
def test_junk_is_an_error_in_one_line(data):
    with pytest.raises(EvidenceError) as caught:
        decode(Observation, data, where="x")
    assert "\n" not in str(caught.value)


@given(st.data())
def test_every_field_is_needed_but_those_that_are_younger_than_recordings(data):
    whole = json.loads(encode(make_report()))
    table = whole
    while True:
        key = data.draw(st.sampled_from(sorted(table.keys() - OPTIONAL_FIELDS)))
        child = table[key][0] if isinstance(table[key], list) and table[key] else table[key]
        if not isinstance(child, dict) or data.draw(st.booleans()):
            break
        table = child
    del table[key]
    with pytest.raises(EvidenceError, match=re.escape(key)):
        decode(Report, json.dumps(whole).encode(), where="x")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", MAX_LOG_RATIO, f"-{MAX_LOG_RATIO}", '"1"', "true", "null", "[1]"])
def test_a_number_that_is_none_is_refused(number):
    data = encode(make_observation(Kind.TIMING, "big", seconds=12.25))
    assert data.count(b"12.25") == 1
    with pytest.raises(EvidenceError):
        decode(Observation, data.replace(b"12.25", number.encode()), where="evidence.json")

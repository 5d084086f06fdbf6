import math
from dataclasses import FrozenInstanceError

import pytest
from evidence_factories import make_identity, make_observation, make_provenance
from factories import FAILED_BUILD, make_build, make_entry_build, make_problem, make_protocol, make_workload

from flashcore_ci.model.codes import FAILING, NEXT_STEP, PASSING, SUBJECT_FAILURES, Code
from flashcore_ci.model.errors import MEANING, EvidenceError, ExitCode, FlashcoreError, SuiteError
from flashcore_ci.model.identity import (
    COLLECTOR_VERSIONS,
    collector_digest,
    digest_of,
    machine_code_digest,
    static_identity,
    workload_digest,
    workload_identity,
)
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Measured, Missing, Samples, measured
from flashcore_ci.model.suite import Kind, Roof, Scope, scope_of

PROTOCOL = make_protocol()


class TestReadings:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_not_finite_is_not_measured(self, value):
        with pytest.raises(ValueError, match="finite"):
            Measured(value=value, unit="ms")
        with pytest.raises(ValueError, match="finite"):
            Samples(values=(1.0, value), unit="ms")
        missing = measured(value, "ms")
        assert isinstance(missing, Missing)
        assert missing.code is Code.NOT_FINITE

    def test_a_number_has_a_unit(self):
        with pytest.raises(ValueError, match="unit"):
            Measured(value=1.0, unit="")
        assert measured(1, "ms") == Measured(value=1.0, unit="ms")

    def test_readings_are_frozen(self):
        with pytest.raises(FrozenInstanceError):
            Measured(value=1.0, unit="ms").value = 2.0


class TestObservations:
    def test_an_absent_metric_and_a_missing_observation_are_different_reasons(self):
        lost = Missing(code=Code.CRASH, message="gone")
        assert make_observation().reading("x").code is Code.METRIC_ABSENT
        assert make_observation(missing=lost, readings=(("x", Measured(value=1.0, unit="ms")),)).reading("x") is lost
        assert make_observation(readings=(("x", Measured(value=1.0, unit="ms")),)).reading("x").value == 1.0

    @pytest.mark.parametrize(
        "twice",
        [
            {"readings": (("x", Measured(value=1.0, unit="ms")),) * 2},
            {"samples": (("x", Samples(values=(), unit="ms")),) * 2},
        ],
    )
    def test_no_metric_is_given_twice(self, twice):
        with pytest.raises(ValueError, match="twice"):
            make_observation(**twice)


class TestIdentity:
    def identity(self, build=None, workload=None, problem=None, protocol=PROTOCOL, kind=Kind.TIMING):
        arguments = (kind, workload or make_workload(), problem or make_problem(), build or make_build(), protocol)
        return workload_identity(*arguments)

    def test_the_same_things_have_the_same_identity(self):
        assert self.identity() == self.identity()

    @pytest.mark.parametrize(
        ("changes", "parts"),
        [
            ({"build": make_build(entries=(make_entry_build(digest="new"),))}, ("machine_code",)),
            ({"build": make_build(launcher="new")}, ("launcher",)),
            ({"build": make_build(binding="new")}, ("binding",)),
            ({"build": make_build(source="new")}, ("subject",)),
            ({"build": make_build(library_digest="new", compiler="new", options=())}, ()),
            ({"workload": make_workload(params=(("n", 2),))}, ("workload",)),
            ({"workload": make_workload(params=(("n", 1024.0),))}, ("workload",)),
            ({"workload": make_workload(seed=1)}, ("workload",)),
            ({"workload": make_workload("renamed", roof=Roof.COMPUTE, tags=("x",))}, ()),
            ({"protocol": make_protocol(timing_processes=3)}, ("collector",)),
            ({"protocol": make_protocol(repeats=9)}, ()),
            ({"kind": Kind.CORRECTNESS}, ("collector",)),
        ],
    )
    def test_what_a_measurement_depends_on_and_nothing_else(self, changes, parts):
        assert self.identity(**changes).changed(self.identity()) == parts

    def test_what_was_not_built_has_none(self):
        assert self.identity(build=FAILED_BUILD) is None
        assert self.identity(problem=make_problem(entries=("other",))) is None
        assert machine_code_digest(make_build(), ["other"]) is None
        assert static_identity(Kind.RESOURCES, make_build(), ["other"], PROTOCOL).machine_code == ""

    def test_a_failed_build_has_none_even_where_the_entry_function_was_built(self):
        assert self.identity(build=make_build(error=FAILED_BUILD.error)) is None

    def test_order_and_repetition_of_entry_functions_do_not_matter(self):
        build = make_build(entries=(make_entry_build("a"), make_entry_build("b")))
        assert machine_code_digest(build, ["a", "b"]) == machine_code_digest(build, ["b", "a", "b"])
        assert machine_code_digest(build, ["a"]) != machine_code_digest(build, ["b"])

    def test_repeats_belong_to_correctness(self):
        digests = {collector_digest(Kind.CORRECTNESS, make_protocol(repeats=count)) for count in (1, 2)}
        assert len(digests) == 2

    def test_another_collector_version_is_another_identity(self, monkeypatch):
        before = collector_digest(Kind.PROFILE, PROTOCOL)
        monkeypatch.setitem(COLLECTOR_VERSIONS, Kind.PROFILE, COLLECTOR_VERSIONS[Kind.PROFILE] + 1)
        assert collector_digest(Kind.PROFILE, PROTOCOL) != before

    def test_digests_refuse_nan(self):
        with pytest.raises(ValueError):
            digest_of(math.nan)
        assert len(workload_digest(make_workload())) == 64

    def test_equal_identities_have_nothing_changed(self):
        assert make_identity().changed(make_identity()) == ()


class TestVocabulary:
    def test_every_code_has_a_next_step_but_the_good_one(self):
        assert set(NEXT_STEP) == set(Code) - PASSING
        assert not PASSING & (SUBJECT_FAILURES | FAILING)

    def test_every_exit_code_has_a_meaning(self):
        assert set(MEANING) == set(ExitCode)

    def test_errors_know_their_exit_code_and_fix(self):
        assert FlashcoreError("x").exit_code is ExitCode.BUG
        assert EvidenceError("x", fix="do this").fix == "do this"
        assert str(SuiteError(("a", "b"))) == "a\nb"

    def test_every_kind_has_a_scope_a_version_and_a_metric(self):
        assert [scope_of(kind) for kind in (Kind.BUILD, Kind.RESOURCES)] == [Scope.SUBJECT, Scope.ENTRY]
        assert {scope_of(kind) for kind in Kind} == set(Scope)
        assert set(COLLECTOR_VERSIONS) == set(Kind)
        assert set(Kind) - {Kind.BAR, Kind.ALERTS} == {metric.kind for metric in METRICS.values()}

    def test_opcodes_are_counted(self):
        assert (make_entry_build().count("LDG"), make_entry_build().count("HGMMA")) == (8, 0)


def test_a_run_of_no_moment_is_refused():
    with pytest.raises(ValueError, match="isoformat"):
        make_provenance(collected_at="yesterday")

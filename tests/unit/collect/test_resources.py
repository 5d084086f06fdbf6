from dataclasses import replace

import factories
import pytest

from flashcore_ci.collect import resources
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind

PROTOCOL = factories.make_protocol()


def observed(entry, **spec):
    declared = factories.make_description().build
    description = factories.make_description(build=replace(declared, entries=(factories.make_entry_spec(**spec),)))
    (observation,) = resources.observe_resources(description, factories.make_build(entries=(entry,)), PROTOCOL)
    return observation


def value(observation, metric):
    reading = observation.reading(metric)
    assert isinstance(reading, Measured)
    return reading.value, reading.unit


def test_a_clean_build():
    observation = resources.observe_build(factories.make_build(), PROTOCOL)
    assert (observation.kind, observation.target) == (Kind.BUILD, "scale")
    assert value(observation, "build/errors") == (0.0, "count")


def test_a_compile_error_is_missing_with_its_place():
    observation = resources.observe_build(factories.FAILED_BUILD, PROTOCOL)
    reading = observation.reading("build/errors")
    assert reading.code is Code.COMPILE_ERROR
    assert reading.message == 'kernel/scale_f32.cu:12: identifier "sclae" is undefined'
    (finding,) = observation.findings
    assert (finding.file, finding.line) == ("kernel/scale_f32.cu", 12)


def test_numbers_and_units():
    entry = factories.make_entry_build(
        highest_register=48,
        spill_store_bytes=4,
        spill_load_bytes=8,
        stack_bytes=16,
        static_shared_bytes=100,
        dynamic_shared_bytes=1000,
        opcodes=(("LDL", 2), ("STL", 1), ("LDG", 8)),
    )
    observation = observed(entry)
    assert value(observation, "spills/bytes") == (12.0, "byte")
    assert value(observation, "local-memory/instructions") == (3.0, "count")
    assert value(observation, "registers/budget-used") == (75.0, "%")
    assert value(observation, "stack/bytes") == (16.0, "byte")
    assert value(observation, "shared/bytes") == (1100.0, "byte")
    assert value(observation, "instructions/violations") == (0.0, "count")


def test_every_violation_counts_and_says_what_it_is():
    entry = factories.make_entry_build(
        opcodes=(("HGMMA", 92), ("LDG", 1)), waits=92, warnings=("(C7512) Potential Performance Loss: serialised",)
    )
    observation = observed(entry, requires=("HGMMA", "UTMALDG"), max_waits_per_hgmma=0.5)
    assert value(observation, "instructions/violations") == (3.0, "count")
    assert observation.notes == (
        "no UTMALDG in the machine code",
        "(C7512) Potential Performance Loss: serialised",
        "92 WARPGROUP.DEPBAR for 92 HGMMA: more than 0.5 each",
    )


@pytest.mark.parametrize(("waits", "limit", "violations"), [(6, 0.5, 0), (14, 0.5, 0), (15, 0.5, 1), (1, 0.0, 1), (99, None, 0)])
def test_waits_per_hgmma(waits, limit, violations):
    entry = factories.make_entry_build(opcodes=(("HGMMA", 28),), waits=waits)
    assert value(observed(entry, max_waits_per_hgmma=limit), "instructions/violations") == (violations, "count")


def test_an_entry_function_that_was_not_built_is_missing():
    (observation,) = resources.observe_resources(factories.make_description(), factories.FAILED_BUILD, PROTOCOL)
    assert observation.target == "scale_f32"
    assert observation.missing.code is Code.NOT_BUILT


def test_what_compiled_beside_an_error_is_still_observed():
    failed = factories.make_build(error=factories.COMPILE_ERROR)
    (observation,) = resources.observe_resources(factories.make_description(), failed, PROTOCOL)
    assert observation.missing is None


def test_all_of_a_set_of_builds():
    descriptions = (factories.make_description(), factories.make_description("library", build=None))
    builds = (factories.make_build(), factories.make_build("library", entries=(), library=""))
    observations = resources.observe(descriptions, builds, PROTOCOL)
    targets = [(observation.kind, observation.target) for observation in observations]
    assert targets == [(Kind.BUILD, "scale"), (Kind.RESOURCES, "scale_f32"), (Kind.BUILD, "library")]


def test_builds_of_other_subjects_say_nothing():
    builds = (factories.make_build("other"), factories.make_build("scale"))
    observations = resources.observe((factories.make_description("scale"),), builds, PROTOCOL)
    assert [observation.target for observation in observations] == ["scale", "scale_f32"]
    assert resources.observe((factories.make_description("scale"),), builds[:1], PROTOCOL) == ()

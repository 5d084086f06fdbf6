from dataclasses import replace

import pytest

from flashcore_ci.model import isolation
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.suite import Kind

FULL = Isolation(mode="own process", network="none", user="own", filesystem="allow-list", clock=isolation.CLOCK)


@pytest.mark.parametrize("kind", [Kind.CORRECTNESS, Kind.TIMING, Kind.COMPARISON])
def test_full_isolation_lacks_nothing(kind):
    assert isolation.shortfall(FULL, kind) == ""


def test_a_shared_user_without_access_suffices():
    assert isolation.shortfall(replace(FULL, user=isolation.USERS[1]), Kind.TIMING) == ""


def test_no_isolation_is_named():
    assert isolation.shortfall(None, Kind.TIMING) == "the evidence records no isolation"


@pytest.mark.parametrize("name", ["mode", "network", "user", "filesystem", "clock"])
def test_a_weak_word_is_named_with_what_it_must_be(name):
    weak = isolation.shortfall(replace(FULL, **{name: "open"}), Kind.TIMING)
    assert weak == f"{name} is 'open', and must be {getattr(FULL, name)!r}"


def test_outputs_need_no_clock_and_times_do():
    without = replace(FULL, clock="none")
    assert isolation.shortfall(without, Kind.CORRECTNESS) == ""
    assert "clock" in isolation.shortfall(without, Kind.COMPARISON)


def test_a_report_has_it_in_one_line():
    assert isolation.describe(replace(FULL, clock="none")) == (
        "isolated: own process, network none, user own, filesystem allow-list, clock none"
    )

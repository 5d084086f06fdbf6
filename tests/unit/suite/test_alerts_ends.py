"""The ends of a bisection, from the file of an alert."""

import pytest

from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.suite.alerts import ends_of

TEXT = f"""
id = "bbbbbbb-89abcdef"
state = "detected"
opened = 2026-11-20
commit = "{"b" * 40}"
last_good = "{"a" * 40}"
entries = []
changes = []
evidence = []

[[series]]
suite = "tiny"
machine_class = "m"
workload = "noisy"
percent = 2.0
standard_error = 1.0
z = 2.0

[[series]]
suite = "tiny"
machine_class = "m"
workload = "clear"
percent = 1.0
standard_error = 0.05
z = 20.0
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "alerts").mkdir()
    (tmp_path / "alerts/bbbbbbb-89abcdef.toml").write_text(TEXT)
    return tmp_path / "tiny.toml"


def test_the_clearest_series_and_both_commits_are_the_question(suite):
    assert ends_of(suite, "bbbbbbb", None) == ("clear", "a" * 40, "b" * 40)
    assert ends_of(suite, "bbbbbbb-89abcdef", "noisy") == ("noisy", "a" * 40, "b" * 40)


def test_an_alert_without_a_file_may_be_in_the_history(suite):
    assert ends_of(suite, "f", None) is None
    assert ends_of(suite, "", None) is None


def test_two_alerts_with_one_beginning_are_refused(suite):
    (suite.parent / "alerts/bbbbbbb-99abcdef.toml").write_text(TEXT.replace("-89", "-99"))
    with pytest.raises(UsageError, match="2 alerts begin with bbbbbb"):
        ends_of(suite, "bbbbbb", None)


@pytest.mark.parametrize(("old", "new"), [("a" * 40, ""), ("b" * 40, "main"), ("percent = 1.0", "percent = nan")])
def test_a_file_that_names_no_ends_is_refused(suite, old, new):
    (suite.parent / "alerts/bbbbbbb-89abcdef.toml").write_text(TEXT.replace(old, new))
    with pytest.raises((SuiteError, UsageError)) as caught:
        ends_of(suite, "bbbbbbb", None)
    assert caught.value.fix


def test_another_workload_is_refused(suite):
    with pytest.raises(UsageError, match="does not name the workload x"):
        ends_of(suite, "bbbbbbb", "x")

"""The self-test's own questions, on reports made up."""

from judging import GOOD, judged

from flashcore_ci.judge import selftest
from flashcore_ci.model.selftest import SelfTest


def test_a_glob_of_what_is_clean_that_matches_nothing_is_named():
    test = SelfTest(suite="s", recording="r", compared="c", clean=("big", "smal*", "smell*"), planted=())
    assert selftest.idle_globs(test, judged(GOOD)) == ("smell*",)

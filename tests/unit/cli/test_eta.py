from __future__ import annotations

import pytest

from flashcore_ci.cli.eta import Remaining, about, stage_of

BEFORE = {"compiled": 20.0, "correctness and sanitizers": 60.0, "profile": 30.0, "timing": 90.0}


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("compiled 3 of 10: scale.cu", "compiled"),
        ("timing: process 2 of 5", "timing"),
        ("correctness and sanitizers", "correctness and sanitizers"),
        ("installing the CUDA tools (about 330 MB on disk, once)", "installing the CUDA tools"),
        (": odd", ": odd"),
    ],
)
def test_a_stage_is_named_by_its_words(line: str, stage: str) -> None:
    assert stage_of(line) == stage


def test_as_long_as_the_last_time() -> None:
    remaining = Remaining(before=BEFORE)
    assert remaining.enter("compiled 1 of 10: a.cu", 100.0)
    assert remaining.left(100.0) == 200.0
    assert remaining.left(115.0) == 185.0
    assert not remaining.enter("compiled 10 of 10: z.cu", 118.0)
    assert remaining.enter("profile", 119.0)  # the first was skipped this time, or runs beside it
    assert remaining.left(120.0) == 29.0 + 90.0


def test_a_stage_that_takes_longer_is_nearly_over_and_the_last_one_is_unknown() -> None:
    remaining = Remaining(before=BEFORE)
    remaining.enter("profile", 0.0)
    assert remaining.left(500.0) == 90.0
    remaining.enter("timing: process 1 of 5", 500.0)
    assert remaining.left(1000.0) is None


def test_what_was_never_seen_is_told_by_its_count_or_not_at_all() -> None:
    remaining = Remaining(before={})
    remaining.enter("profile", 0.0)
    assert remaining.left(5.0) is None
    remaining.enter("A/A: process 1 of 40", 10.0)
    assert remaining.left(12.0) is None
    remaining.enter("A/A: process 11 of 40", 110.0)
    assert remaining.left(110.0) == pytest.approx(300.0)


def test_what_it_took_is_kept_in_order() -> None:
    remaining = Remaining(before={})
    for line, now in (("compiled 1 of 2: a", 0.0), ("profile", 4.0), ("compiled 2 of 2: b", 5.0)):
        remaining.enter(line, now)
    assert remaining.finished(8.0) == {"profile": 1.0, "compiled": 7.0}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0.1, "a few seconds left"),
        (10.0, "about 10 s left"),
        (41.0, "about 50 s left"),
        (61.0, "about 2 min left"),
        (3600.0, "about 60 min left"),
    ],
)
def test_never_more_exact_than_it_can_be(seconds: float | None, said: str) -> None:
    assert about(seconds) == said

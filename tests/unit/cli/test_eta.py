from __future__ import annotations

import click
import pytest

from flashcore_ci.cli.eta import TimeLeft, command_key, describe, stage_of

BEFORE = {"asking": 20.0, "correctness and sanitizers": 60.0, "profile": 30.0, "timing": 90.0}


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
    estimate = TimeLeft(before=BEFORE)
    assert estimate.enter("asking 1 of 10: a.py", 100.0)
    assert estimate.left(100.0) == 200.0
    assert estimate.left(115.0) == 185.0
    assert not estimate.enter("asking 10 of 10: z.py", 118.0)
    assert estimate.enter("profile", 119.0)  # the stage before it is skipped, or runs at the same time
    assert estimate.left(120.0) == 29.0 + 90.0


def test_a_stage_that_a_cache_can_skip_is_not_predicted_by_its_cold_time() -> None:
    estimate = TimeLeft(before={"asking": 2.0, "building the kernels": 40.0, "compiled": 100.0, "judging": 30.0})
    estimate.enter("asking", 0.0)
    assert estimate.left(0.0) == 32.0
    estimate.enter("building the kernels", 2.0)
    assert estimate.left(3.0) is None
    estimate.enter("judging", 3.0)
    assert estimate.left(3.0) == 30.0


def test_a_cold_cache_is_seen_by_its_count_and_cached_items_say_nothing() -> None:
    estimate = TimeLeft(before={"asking": 2.0, "judging": 30.0})
    estimate.enter("compiled 7 of 12: g.cu", 10.0)
    assert estimate.left(11.0) is None
    estimate.enter("compiled 9 of 12: i.cu", 20.0)
    assert estimate.left(20.0) == pytest.approx(10.0 / 2 * 4 + 2.0 + 30.0)


def test_a_stage_that_takes_longer_is_nearly_over_and_the_last_one_is_unknown() -> None:
    estimate = TimeLeft(before=BEFORE)
    estimate.enter("profile", 0.0)
    assert estimate.left(500.0) == 90.0
    estimate.enter("timing: process 1 of 5", 500.0)
    assert estimate.left(1000.0) is None


def test_what_was_never_seen_is_told_by_its_count_or_not_at_all() -> None:
    estimate = TimeLeft(before={})
    estimate.enter("profile", 0.0)
    assert estimate.left(5.0) is None
    estimate.enter("A/A: process 1 of 40", 10.0)
    assert estimate.left(12.0) is None
    estimate.enter("A/A: process 11 of 40", 110.0)
    assert estimate.left(110.0) == pytest.approx(300.0)


def test_durations_are_kept_in_order_without_those_of_a_cache() -> None:
    estimate = TimeLeft(before={})
    for line, now in (("asking", 0.0), ("compiled 1 of 2: a", 1.0), ("profile", 4.0), ("asking", 5.0)):
        estimate.enter(line, now)
    assert estimate.finish(8.0) == {"profile": 1.0, "asking": 4.0}


def test_the_key_has_the_options_that_matter() -> None:
    keys = set()
    for params in ({"suite": "a"}, {"suite": "b"}, {"suite": "a", "json": True}):
        context = click.Context(click.Command("gate"), info_name="gate")
        context.params = params
        with context:
            keys.add(command_key())
    assert len(keys) == 2
    assert command_key() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.1, "a few seconds left"),
        (10.0, "about 10 s left"),
        (41.0, "about 50 s left"),
        (61.0, "about 2 min left"),
        (3600.0, "about 60 min left"),
    ],
)
def test_never_more_exact_than_it_can_be(seconds: float | None, text: str) -> None:
    assert describe(seconds) == text

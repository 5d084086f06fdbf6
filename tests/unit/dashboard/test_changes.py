from dataclasses import replace

import pytest
from dashboards import NOW, line_of, run_of, snapshot

from flashcore_ci.dashboard import changes, overview
from flashcore_ci.dashboard.changes import Status

QUIET = [0.001 * (-1) ** number for number in range(30)]


def status_of(levels, **options):
    line = line_of(1, levels, **options)
    return changes.of(line, (), {number: run_of(number).collected_at for number in range(60)})


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        ([*QUIET, 0.03], Status.REGRESSED),
        ([*QUIET, -0.03], Status.IMPROVED),
        ([*QUIET, 0.0005], Status.UNCHANGED),
        ([0.1 * level / 0.001 for level in QUIET], Status.UNPROVEN),
        ([0.0, 0.001, 0.03], Status.UNPROVEN),
    ],
)
@pytest.mark.parametrize("anchored", [True, False])
def test_the_newest_point_is_compared_with_those_before(levels, status, anchored):
    assert status_of(levels, anchored=anchored).status is status


def test_another_gpu_is_no_change_without_an_anchor():
    line = line_of(1, [*QUIET, *(0.1 + level for level in QUIET)], anchored=False)
    moved = replace(line, dots=tuple(replace_epoch(dot, dot.run // 30) for dot in line.dots))
    assert changes.of(line, (), {}).status is not Status.REGRESSED
    assert changes.of(moved, (), {}).status is Status.UNCHANGED
    assert [dot.epoch for dot in changes.comparable(moved)] == [1] * 30


def replace_epoch(dot, epoch):
    return dot._replace(epoch=epoch)


def test_equal_code_never_changes():
    line = line_of(1, [*QUIET[:8], 0.05])
    same = replace(line, dots=tuple(dot._replace(code=1) for dot in line.dots))
    assert changes.of(line, (), {}).status is Status.REGRESSED or len({dot.code for dot in line.dots}) == 1
    assert changes.of(same, (), {}).status is Status.UNCHANGED


def test_equal_code_that_was_not_timed_is_as_fast_as_it_was():
    line = line_of(1, QUIET, anchored=False)
    untimed = line.dots[-1]._replace(run=30, value=None, std=None, epoch=None)
    same, other = (replace(line, dots=(*line.dots, untimed._replace(code=code))) for code in (untimed.code, 99))
    assert [changes.of(each, (), {}).status for each in (same, other)] == [Status.UNCHANGED, Status.UNPROVEN]


def test_an_open_alert_decides_and_a_blocking_verdict_is_named():
    found = {row.line.key: row.change for row in overview.rows_of(snapshot())}
    statuses = [change.status for _, change in sorted(found.items())]
    assert statuses == [Status.REGRESSED, Status.IMPROVED, Status.FAILED, Status.UNPROVEN, Status.UNCHANGED]
    assert "alert abc-1, active" in found[f"{1:012x}"].why
    assert found[f"{3:012x}"].why == "no-slower: over-limit"
    quiet = replace(snapshot(), alerts=())
    assert {row.line.key: row.change for row in overview.rows_of(quiet)}[f"{1:012x}"].why != found[f"{1:012x}"].why


def test_a_line_that_nothing_measures_any_more_is_left_out():
    made = snapshot()
    old = replace(made, runs={**made.runs, 2: replace(made.runs[2], collected_at=NOW - 400 * 86_400)})
    assert len(overview.rows_of(made)) - len(overview.rows_of(old)) == 1


def test_a_run_of_the_future_hides_no_line():
    made = snapshot()
    wrong = replace(made, runs={**made.runs, 2: replace(made.runs[2], collected_at=NOW + 400 * 86_400)})
    assert len(overview.rows_of(wrong)) == len(overview.rows_of(made))
    assert overview.as_of(replace(wrong, recent=tuple(wrong.runs.values()))) == overview.as_of(made)


def test_a_line_whose_versions_differ_is_compared_with_the_version_before():
    steps = [*([0.1] * 10), *([0.0] * 10), 0.0003]
    found = status_of(steps)
    assert (found.status, found.why) == (Status.UNCHANGED, "as fast as the version before, and earlier ones differ")
    assert found.estimate == pytest.approx(0.0003)
    assert status_of(steps, anchored=False).status is Status.UNPROVEN
    assert status_of([*steps[:-1], 0.02]).status is Status.UNPROVEN

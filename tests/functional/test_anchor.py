"""Anchored measurements between real commits that really compile. Only the GPU's timings are made up."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from compare_bench import Bench
from history_factories import url_of

from flashcore_ci.history import address, database, queries
from flashcore_ci.history.points import tracks

REVIEWED = ("--reason", "the first release", "--owner", "kernels")


def tracks_of(url):
    with database.reading(address.parse(url, {})) as connection:
        return tracks(connection, standings=queries.ALL), queries.anchors(connection)


def run(bench: Bench, *arguments: str) -> tuple[int, str]:
    """Exit code, and what was said, of a command without --out."""
    status, _, said = bench.ended(bench.started(*arguments), "runs/none")
    return status, said


@pytest.fixture
def anchored(bench: Bench) -> Bench:
    """A commit whose parent is not the anchor."""
    status, said = run(bench, "history", "anchor", "pin", "main", *REVIEWED)
    assert status == 0, said
    bench.repository.commit("pin the anchor")
    bench.change()
    bench.repository.edit("kernel/twice.cu", "+ 1.0f", "+ 2.0f")
    bench.repository.commit("a third kernel")
    bench.times["anchor"] = 0.98
    return bench


def test_a_commit_is_timed_with_parent_and_anchor_and_the_history_keeps_the_ratio(anchored: Bench, tmp_path) -> None:
    status, report, said = anchored.run("gate", "--anchor", "--live", "--only", "no-slower")
    assert (status, [v["reason"]["code"] for v in report["verdicts"] if v["gate"] == "no-slower"]) == (0, ["same"]), said
    assert Counter(name.rpartition("-")[2] for name in anchored.timed) == dict.fromkeys(("base", "head", "anchor"), 5)
    url = url_of(tmp_path)
    status, said = run(anchored, "history", "add", "runs/compare", "--reviewed", "--db", url)
    assert status == 0, said
    (track,), (anchor,) = tracks_of(url)
    (point,) = track.points
    assert track.anchored
    assert point.log_ratio == pytest.approx(0.0202, abs=1e-3)
    assert (point.anchor, point.rounds, anchor.reason) == (anchor.id, 5, "the first release")
    assert anchored.run("judge", "runs/compare", "--only", "no-slower", out="runs/judged")[0] == 0


def test_an_anchor_that_is_not_the_pinned_build_is_not_timed(anchored: Bench) -> None:
    file = anchored.repository.folder / "gates/anchor.toml"
    text = file.read_text()
    digest = text.partition('machine_code = "')[2][:64]
    file.write_text(text.replace(digest, "0" * 64))
    _, report, said = anchored.run("gate", "--anchor", "--live", "--only", "no-slower")
    assert "the anchor's machine code is not the pinned one" in said
    assert set(Counter(name.rpartition("-")[2] for name in anchored.timed)) == {"base", "head"}
    assert report


def test_an_anchor_is_replaced_after_both_were_measured(anchored: Bench) -> None:
    anchored.times["base"] = 0.98
    status, _, said = anchored.run("history", "anchor", "replace", "HEAD", *REVIEWED)
    assert status == 0, said
    text = (anchored.repository.folder / "gates/anchor.toml").read_text()
    assert text.count("[[anchor]]") == 2
    ratio = float(text.partition("log_ratio = ")[2].splitlines()[0])
    assert ratio == pytest.approx(0.0202, abs=1e-3)
    assert json.dumps(text)


@pytest.mark.parametrize(("reason", "owner", "option"), [(" ", "kernels", "--reason"), ("why", "", "--owner")])
def test_an_anchor_needs_words(cli, reason: str, owner: str, option: str) -> None:
    done = cli("history", "anchor", "pin", "HEAD", "--suite", "suite.toml", "--reason", reason, "--owner", owner)
    assert (done.returncode, f"{option} " in done.stderr) == (2, True)


def test_an_anchor_without_a_gpu_is_not_called_a_base(anchored: Bench) -> None:
    status, _, said = anchored.run("gate", "--anchor", "--recorded")
    assert (status, "--anchor needs a GPU" in said, "fix: omit --anchor, " in said) == (2, True, True)


def test_a_suite_without_an_anchor_says_how_to_pin_one(bench: Bench) -> None:
    bench.change()
    status, _, said = bench.run("gate", "--anchor", "--live", "--only", "no-slower")
    assert status == 2
    assert "pins no anchor" in said
    assert "flashcore-ci history anchor pin" in said


def test_a_bump_of_torch_is_measured_in_both_environments_and_named(bench: Bench) -> None:
    older = bench.recording.parent / "older"
    text = Path(bench.repository.environment["FLASHCORE_CI_PYTHON"]).read_text()
    older.write_text(text.replace("exec ", "FAKE_TORCH=2.10 exec "))
    older.chmod(0o755)
    (bench.repository.folder / "notes.txt").write_text("a newer torch")
    bench.repository.commit("raise torch")
    bench.times["head"] = 1.02
    _, report, said = bench.run("gate", "--base", "main", "--base-python", str(older), "--live", "--only", "no-slower")
    (verdict,) = [v for v in report["verdicts"] if v["gate"] == "no-slower"]
    assert verdict["reason"]["code"] == "slower", said
    assert "torch: 2.10 for base, 2.11 for head" in verdict["notes"]
    assert len(bench.timed) == 2 * 8

"""Processes that wait for a shard: they run one command line, or none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flashcore_ci.fleet import ahead
from flashcore_ci.fleet.ahead import Ahead

ECHO = "import json, sys; sys.exit(len(json.loads(open(sys.argv[1]).readline())))"


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ahead:
    monkeypatch.setattr(ahead, "WAITING", (sys.executable, "-c", ECHO))
    return Ahead(logs=tmp_path / "logs", root=tmp_path)


def test_each_process_runs_one_command(waiting: Ahead) -> None:
    waiting.start(2)
    both = [waiting.take(), waiting.take()]
    assert waiting.take() is None
    done = [one.run(["a"] * (3 + n), timeout=20.0, should_stop=bool) for n, one in enumerate(both) if one is not None]
    assert [one.returncode for one in done if one is not None] == [3, 4]
    waiting.close()


def test_one_that_gets_no_command_ends_with_its_gate(waiting: Ahead) -> None:
    waiting.start(1)
    waiting.close()
    (one,) = waiting._all
    assert one._done is not None
    assert one._done.result().timed_out


def test_the_time_limit_and_the_gpus_signs_count_from_the_command(waiting: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "WAITING", (sys.executable, "-c", "import time; time.sleep(30)"))
    waiting.start(2)
    for options in ({"timeout": 0.0, "should_stop": bool}, {"timeout": 20.0, "should_stop": lambda: True}):
        one = waiting.take()
        assert one is not None
        done = one.run(["a"], **options)
        assert done is not None
        assert done.timed_out
    waiting.close()


def test_one_that_died_is_not_used(waiting: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "WAITING", (sys.executable, "-c", ""))
    waiting.start(1)
    (one,) = waiting._all
    assert one._done is not None
    one._done.result()
    assert one.run(["a"], timeout=20.0, should_stop=bool) is None
    waiting.close()


def test_only_this_user_may_write_a_command(waiting: Ahead) -> None:
    waiting.start(1)
    assert waiting._all[0].fifo.stat().st_mode & 0o077 == 0
    waiting.close()

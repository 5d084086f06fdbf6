"""One gate at a time on a GPU, with a real second process."""

import subprocess
import sys
from pathlib import Path

import pytest

from flashcore_ci.adapters import lock
from flashcore_ci.model.errors import CannotCollectError

HOLDER = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); f.write('4711'); f.flush(); print('held', flush=True); time.sleep(float(sys.argv[2]))"


@pytest.fixture
def held(tmp_path):
    """A lock file that another process holds for so many seconds."""
    holders = []

    def hold(seconds: float) -> Path:
        file = lock.path(tmp_path / "locks", "GPU-1")
        file.parent.mkdir()
        holders.append(
            subprocess.Popen([sys.executable, "-c", HOLDER, str(file), str(seconds)], stdout=subprocess.PIPE, text=True)
        )
        assert holders[0].stdout.readline() == "held\n"
        return file

    yield hold
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_free_gpu_is_taken_without_a_word(tmp_path):
    said = []
    for _ in range(2):
        with lock.hold(lock.path(tmp_path / "locks", "GPU-1"), timeout=1, waiting=said.append):
            pass
    assert said == []


def test_the_second_waits_and_says_so_once(held):
    said = []
    with lock.hold(held(1.0), timeout=20, waiting=said.append):
        pass
    (line,) = said
    assert "4711" in line


def test_waiting_has_an_end(held):
    file = held(60)
    with pytest.raises(CannotCollectError, match="has held"), lock.hold(file, timeout=0.5, waiting=lambda _: None):
        raise AssertionError("nobody else may hold it")


RACER = """
import sys
from pathlib import Path
from flashcore_ci.adapters import lock

lock.POLL_SECONDS = 0.002
count = Path(sys.argv[2])
for _ in range(10):
    with lock.hold(Path(sys.argv[1]), timeout=60, waiting=lambda _: None):
        count.write_text(str(int(count.read_text()) + 1))
"""


def test_who_races_for_it_has_it_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (tmp_path / "count").write_text("0")
    argv = [
        sys.executable,
        "-c",
        RACER,
        str(tmp_path / "lock"),
        str(tmp_path / "count"),
    ]
    racers = [subprocess.Popen(argv) for _ in range(4)]
    assert [racer.wait(60) for racer in racers] == [0] * 4
    assert (tmp_path / "count").read_text() == "40"


def test_another_gpu_is_another_lock(held):
    file = held(60)
    with lock.hold(lock.path(file.parent, "GPU-2"), timeout=0.5, waiting=lambda _: None):
        pass


def test_a_folder_that_refuses(tmp_path):
    (tmp_path / "file").write_text("", encoding="ascii")
    with (
        pytest.raises(CannotCollectError, match="cannot lock"),
        lock.hold(tmp_path / "file/lock", timeout=1, waiting=lambda _: None),
    ):
        raise AssertionError("there is no such folder")

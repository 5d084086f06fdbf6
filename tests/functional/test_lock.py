"""One gate at a time on a GPU, with a real second process."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flashcore_ci.adapters import lock
from flashcore_ci.model.errors import CannotCollectError

HOLDER = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); f.write('4711'); f.flush(); print('held', flush=True); time.sleep(600)"


@pytest.fixture
def holder(tmp_path):
    """Another process, which holds the file until it is killed."""
    file = lock.path(tmp_path / "locks", "GPU-1")
    file.parent.mkdir()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    yield holder
    holder.kill()
    holder.communicate()


@pytest.fixture
def held(tmp_path, holder):
    """A lock file that another process holds."""
    return lock.path(tmp_path / "locks", "GPU-1")


def test_a_free_gpu_is_taken_without_a_word(tmp_path):
    said = []
    for _ in range(2):
        with lock.hold(lock.path(tmp_path / "locks", "GPU-1"), timeout=1, waiting=said.append):
            pass
    assert said == []


def test_the_second_waits_and_says_so_once(held, holder):
    said = []

    def waiting(line):
        said.append(line)
        threading.Timer(0.5, holder.kill).start()  # after some more looks at the lock

    with lock.hold(held, timeout=300, waiting=waiting):
        pass
    (line,) = said
    assert "4711" in line


def test_waiting_has_an_end(held):
    with pytest.raises(CannotCollectError, match="has held"), lock.hold(held, timeout=0.5, waiting=lambda _: None):
        raise AssertionError("nobody else may hold it")


RACER = """
import sys
from pathlib import Path
from flashcore_ci.adapters import lock

lock.POLL_SECONDS = 0.002
count = Path(sys.argv[2])
for _ in range(10):
    with lock.hold(Path(sys.argv[1]), timeout=300, waiting=lambda _: None):
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
    assert [racer.wait(300) for racer in racers] == [0] * 4
    assert (tmp_path / "count").read_text() == "40"


def test_another_gpu_is_another_lock(held):
    with lock.hold(lock.path(held.parent, "GPU-2"), timeout=0.5, waiting=lambda _: None):
        pass


def test_a_folder_that_refuses(tmp_path):
    (tmp_path / "file").write_text("", encoding="ascii")
    with (
        pytest.raises(CannotCollectError, match="cannot lock"),
        lock.hold(tmp_path / "file/lock", timeout=1, waiting=lambda _: None),
    ):
        raise AssertionError("there is no such folder")

"""Few CUDA contexts at a time, in the order of need."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashcore_ci.worker import turns


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_waiting", [])
    monkeypatch.setattr(turns, "POLL_SECONDS", 0.001)


@contextmanager
def others(folder: Path, count: int = turns.AT_ONCE, need: int = turns.FIRST) -> Iterator[list[int]]:
    """So many processes that make a context."""
    tickets = [folder / turns.FOLDER / f"{need}-{number:020d}-1" for number in range(count)]
    held = [turns._draw(ticket) for ticket in tickets]
    yield held
    for descriptor in held:
        os.close(descriptor)


def begin(folder: Path, kind: str) -> threading.Event:
    """Let a process of this kind ask for its turn. The event says that it had it."""
    had = threading.Event()
    turns.use(str(folder), kind)
    ticket, turns._waiting[:] = turns._waiting[0], []

    def ask() -> None:
        descriptor = turns._draw(ticket)
        turns._await(ticket)
        had.set()
        ticket.unlink()
        os.close(descriptor)

    threading.Thread(target=ask, daemon=True).start()
    return had


@pytest.mark.parametrize("kind", ["correctness", "timing"])
def test_who_comes_too_early_waits_for_a_turn_to_end(tmp_path: Path, kind: str) -> None:
    with others(tmp_path) as held:
        had = begin(tmp_path, kind)
        assert not had.wait(0.05)
        os.close(held.pop())  # its process has ended without a word
        assert had.wait(10)


def test_who_only_waits_for_the_gpu_comes_last(tmp_path: Path) -> None:
    with others(tmp_path, need=turns.LATER):
        assert begin(tmp_path, "correctness").wait(10)
        assert not begin(tmp_path, "timing").wait(0.05)


def test_a_process_has_one_turn_and_leaves_no_ticket(tmp_path: Path) -> None:
    turns.use(str(tmp_path), "probe")
    with turns.one():
        assert len(list((tmp_path / turns.FOLDER).iterdir())) == 1
    assert not list((tmp_path / turns.FOLDER).iterdir())
    with others(tmp_path), turns.one():  # else it would wait
        pass


def test_nobody_waits_for_ever_or_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_SECONDS", 0.01)
    began = time.monotonic()
    with others(tmp_path):
        turns.use(str(tmp_path), "timing")
        with turns.one():
            pass
    for folder in (str(tmp_path / "absent"), ""):
        turns.use(folder, "timing")
        with turns.one():
            pass
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / turns.FOLDER).write_text("no folder")
    turns.use(str(tmp_path / "file"), "timing")
    with turns.one():
        pass
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("is_link", [False, True])
def test_no_file_but_a_ticket_is_removed(tmp_path: Path, is_link: bool) -> None:
    """The folder is where other users can write. Behind a link of theirs, a gate of root removed what sorts before its ticket."""
    folder = tmp_path / ("home" if is_link else turns.FOLDER)
    folder.mkdir()
    for name in (".bashrc", "#notes", "0-old"):
        (folder / name).touch()
    (folder / f"0-{1:020d}-1").touch()
    if is_link:
        (tmp_path / turns.FOLDER).symlink_to(folder)
    turns.use(str(tmp_path), "timing")
    with turns.one():
        pass
    names = {path.name for path in folder.iterdir()}
    assert names == {".bashrc", "#notes", "0-old", *([f"0-{1:020d}-1"] if is_link else [])}


def test_a_folder_that_changes_during_a_turn_ends_no_process(tmp_path: Path) -> None:
    turns.use(str(tmp_path), "timing")
    with turns.one():
        (tmp_path / turns.FOLDER).rename(tmp_path / "away")
        (tmp_path / turns.FOLDER).touch()


def test_nobody_waits_where_locks_cannot_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS: a lock needs a file that is open for writing."""
    lock = turns.fcntl.flock

    def refuse_readers(descriptor: int, operation: int) -> None:
        if turns.fcntl.fcntl(descriptor, turns.fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")
        lock(descriptor, operation)

    monkeypatch.setattr(turns.fcntl, "flock", refuse_readers)
    with others(tmp_path):
        assert begin(tmp_path, "timing").wait(10)


def test_a_ticket_that_another_process_looks_at_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def is_looked_at(descriptor: int, _: int) -> None:
        seen.append(os.fstat(descriptor).st_ino)
        raise BlockingIOError

    monkeypatch.setattr(turns.fcntl, "flock", is_looked_at)
    turns.use(str(tmp_path), "timing")
    with turns.one():
        assert not list((tmp_path / turns.FOLDER).iterdir())
        kept = [os.stat(file).st_ino for file in Path("/proc/self/fd").iterdir() if file.exists()]  # noqa: PTH116
        assert len(seen) == 1
        assert seen[0] not in kept


def test_a_folder_of_a_stranger_has_no_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could hold tickets, and each process would wait for 20 s."""
    folder = tmp_path / turns.FOLDER
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 54_321, -1)
    else:
        monkeypatch.setattr(turns.os, "geteuid", lambda: 54_321)
    turns.use(str(tmp_path), "probe")
    with turns.one():
        assert list(folder.iterdir()) == []


def test_tickets_of_processes_that_ended_hide_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's cannot be removed."""
    monkeypatch.setattr(turns, "_remove", lambda _: None)
    folder = tmp_path / turns.FOLDER
    folder.mkdir()
    for number in range(3 * turns.AT_ONCE):
        (folder / f"{turns.FIRST}-{number:020d}-1").touch()
    held = [turns._draw(folder / f"{turns.FIRST}-{100 + number:020d}-1") for number in range(turns.AT_ONCE)]
    assert not begin(tmp_path, "correctness").wait(0.05)
    for descriptor in held:
        os.close(descriptor)

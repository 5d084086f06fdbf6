"""The files that say which GPUs failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.run import aside

BROKEN = "Xid 79: GPU has fallen off the bus"


def test_a_disk_that_refuses_the_note_ends_no_measurement(tmp_path: Path) -> None:
    aside.note(tmp_path, "a", BROKEN)
    (file,) = (tmp_path / "aside").iterdir()
    file.unlink()
    file.mkdir()
    aside.note(tmp_path, "a", BROKEN)


def test_a_damaged_note_puts_nothing_aside_and_doctor_does_not_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aside.note(tmp_path, "node1", BROKEN)
    (good,) = (tmp_path / "aside").iterdir()
    monkeypatch.setattr(aside.clock, "wall", lambda: good.stat().st_mtime)
    for name, content in {"empty": b"", ".half.tmp": b"GPU-1", "other": b"n1 --wrap=x\nwhy", "binary": b"\xff\x00\n\xfe"}.items():
        (tmp_path / "aside" / name).write_bytes(content)
    assert aside.noted(tmp_path) == (("node1", BROKEN, good),)
    good.write_text("node1\n")
    assert aside.noted(tmp_path) == ()


def test_a_gpu_that_was_repaired_starts_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says which file to delete. One more failure is the first one then."""
    monkeypatch.setattr(aside.clock, "wall", lambda: max(file.stat().st_mtime for file in (tmp_path / "aside").iterdir()))
    assert [aside.failed(tmp_path, "a", BROKEN) for _ in range(2)] == [False, True]
    ((_, _, file),) = aside.noted(tmp_path)
    file.unlink()
    (tmp_path / "aside/other").touch()
    assert not aside.failed(tmp_path, "a", BROKEN)
    assert aside.noted(tmp_path) == ()


def test_what_is_no_file_of_this_week_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = aside._file(tmp_path, "a").with_suffix(aside.ONCE)
    once.mkdir(parents=True)
    monkeypatch.setattr(aside.clock, "wall", lambda: once.stat().st_mtime)
    assert not aside.failed(tmp_path, "a", BROKEN)
    once.rmdir()
    once.write_text("a\n")
    monkeypatch.setattr(aside.clock, "wall", lambda: once.stat().st_mtime - 60.0)
    assert not aside.failed(tmp_path, "a", BROKEN)

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

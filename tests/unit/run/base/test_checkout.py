"""The checkouts of other commits that are kept, and those that go."""

import os

from flashcore_ci.run.base import checkout

NOW = 1_800_000_000.0


def test_old_checkouts_go_beyond_a_number_and_none_that_may_be_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(checkout.clock, "wall", lambda: NOW)
    monkeypatch.setattr(checkout, "MIN_KEPT", 2)
    for age in (0, 1, 2, 3):
        for name in (f"{age}-days", f".{age}-days-half-done"):
            (tmp_path / name / "kernel").mkdir(parents=True)
            os.utime(tmp_path / name, (NOW, NOW - age * checkout.IDLE_SECONDS))
    checkout.evict(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"0-days", ".0-days-half-done", "1-days", ".1-days-half-done"}
    monkeypatch.setattr(checkout, "MIN_KEPT", 0)
    checkout.evict(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"0-days", ".0-days-half-done", "1-days", ".1-days-half-done"}

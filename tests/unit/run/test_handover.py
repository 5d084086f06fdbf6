"""What a gate hands to its own shards arrives as it was, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import make_build, make_plan

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.run import handover


def test_plan_and_builds_arrive_as_they_were(tmp_path: Path) -> None:
    plan = make_plan()
    file = handover.write(plan, (make_build(),), tmp_path)
    assert handover.read(file) == (plan, (make_build(),))
    assert handover.write(plan, (make_build(),), tmp_path) == file


@pytest.mark.parametrize("position", [0, 1, 100, -1])
def test_no_byte_can_be_altered(position: int, tmp_path: Path) -> None:
    file = handover.write(make_plan(), (make_build(),), tmp_path)
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)
    with pytest.raises(EvidenceError, match="not that of its name"):
        handover.read(file)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="cannot be read"):
        handover.read(tmp_path / "given-x.json")

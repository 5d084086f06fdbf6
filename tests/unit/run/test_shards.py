"""How long units took in recorded runs: read alone, and the same as by decoding whole runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import evidence, shards
from flashcore_ci.run.request import Request
from flashcore_ci.store import bundle, codec

RECORDED = Path(__file__).parents[3] / "gates" / "evidence"
TIMED = {"kind": "timing", "target": "w", "seconds": 1.5, "readings": []}


def durations(folder: Path) -> dict[Unit, float]:
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, evidence=folder)
    return shards.recorded_durations(request)


def write(folder: Path, name: str, content: object) -> None:
    (folder / f"{name}.tar.xz").write_bytes(bundle.pack_files({"evidence.json": json.dumps(content).encode()}))


def test_they_are_those_of_whole_runs() -> None:
    sources = evidence.read_bundles(RECORDED)
    whole = {Unit(kind=one.kind, workload=one.target): one.seconds for source in sources for one in source.evidence.observations}
    assert durations(RECORDED) == whole != {}


def test_the_last_run_counts(tmp_path: Path) -> None:
    write(tmp_path, "a", {"observations": [TIMED, {**TIMED, "target": "v"}]})
    write(tmp_path, "b", {"observations": [{**TIMED, "seconds": 3}]})
    assert durations(tmp_path) == {Unit(kind=Kind.TIMING, workload="w"): 3.0, Unit(kind=Kind.TIMING, workload="v"): 1.5}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"observations": 7},
        {"observations": [{**TIMED, "kind": "guess"}]},
        {"observations": [{**TIMED, "seconds": "long"}]},
    ],
)
def test_a_run_that_does_not_say_them_counts_for_nothing(tmp_path: Path, content: object) -> None:
    write(tmp_path, "a", content)
    write(tmp_path, "b", {"observations": [TIMED]})
    assert durations(tmp_path) == {Unit(kind=Kind.TIMING, workload="w"): 1.5}


def test_deep_and_large_records_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tar.xz").write_bytes(bundle.pack_files({"evidence.json": b"[" * 100_000}))
    assert durations(tmp_path) == {}
    monkeypatch.setattr(codec, "MAX_RECORD", 10)
    write(tmp_path, "a", {"observations": [TIMED]})
    assert durations(tmp_path) == {}


def test_what_is_no_bundle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar.xz").write_bytes(b"text")
    with pytest.raises(EvidenceError):
        durations(tmp_path)

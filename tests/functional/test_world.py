"""The recorded runs of other projects' kernels count on a machine without their packages. Each red is explained.

Those of correctness and timing are older than the collectors, so they count again with the next recording.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from replayed import ROOT

from flashcore_ci.model.suite import Kind
from flashcore_ci.store.run import read_run

FOLDER = Path("gates/world")
MIN_KERNELS, MIN_PROJECTS = 30, 6
STALE = frozenset({"finite", "repeatable", "error-ratio", "stability"})


def test_every_red_of_the_recorded_runs_is_explained(cli: Any, tmp_path: Path) -> None:
    options = ("--suite", FOLDER / "world.toml", "--evidence", FOLDER / "evidence", "--out", tmp_path / "run")
    done = cli("gate", "--recorded", *options, cwd=ROOT)
    report = json.loads((tmp_path / "run/report.json").read_text(encoding="utf-8"))
    verdicts = {(verdict["gate"], verdict["target"]): verdict for verdict in report["verdicts"]}
    assert {gate for (gate, _), verdict in verdicts.items() if verdict["origin"]["kind"] == "none"} == STALE, done.stdout
    page = (ROOT / FOLDER / "README.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `([a-z-]+)` \| ([a-z0-9-]+) \|", page, re.MULTILINE))
    red = {key for key, verdict in verdicts.items() if verdict["outcome"] != "PASS" and key[0] not in STALE}
    assert red == {key for key in explained if key[0] not in STALE}


def test_the_recorded_runs_timed_kernels_of_many_projects() -> None:
    runs = [read_run(bundle) for bundle in sorted((ROOT / FOLDER / "evidence").glob("*.tar.xz"))]
    timed = {
        seen.target for run in runs for seen in run.evidence.observations if seen.kind is Kind.TIMING and seen.missing is None
    }
    assert len(timed) >= MIN_KERNELS
    assert len({target.partition("-")[0] for target in timed}) >= MIN_PROJECTS

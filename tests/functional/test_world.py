"""The recorded runs of other projects' kernels count on a machine without their packages. Each red is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from replayed import ROOT

FOLDER = Path("gates/world")
MIN_KERNELS, MIN_PROJECTS = 30, 6


def test_every_red_of_the_recorded_runs_is_explained(cli: Any, tmp_path: Path) -> None:
    options = ("--suite", FOLDER / "world.toml", "--evidence", FOLDER / "evidence", "--out", tmp_path / "run")
    done = cli("gate", "--recorded", *options, cwd=ROOT)
    report = json.loads((tmp_path / "run/report.json").read_text(encoding="utf-8"))
    verdicts = {(verdict["gate"], verdict["target"]): verdict for verdict in report["verdicts"]}
    assert {verdict["origin"]["kind"] for verdict in verdicts.values()} == {"recorded"}, done.stdout
    page = (ROOT / FOLDER / "README.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `([a-z-]+)` \| ([a-z0-9-]+) \|", page, re.MULTILINE))
    assert {key for key, verdict in verdicts.items() if verdict["outcome"] != "PASS"} == explained
    measured = {target for (gate, target), verdict in verdicts.items() if gate == "stability" and verdict["outcome"] == "PASS"}
    assert len(measured) >= MIN_KERNELS
    assert len({target.partition("-")[0] for target in measured}) >= MIN_PROJECTS

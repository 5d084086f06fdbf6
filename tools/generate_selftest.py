"""Write docs/selftest.md from the recorded run of the planted defects. Usage: generate_selftest.py [FILE]."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from flashcore_ci.cli.selftest import FILE, Answers, from_recording
from flashcore_ci.run.request import Request
from flashcore_ci.selftest import table
from flashcore_ci.selftest.loader import load
from flashcore_ci.store.run import read_run

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/selftest.md"
HEAD = """# The self-test

<!-- Written by tools/generate_selftest.py (`make generate`); do not edit. -->

A gate that was never red proves nothing. `flashcore-ci selftest` breaks the kernels on purpose and demands, for each defect, that the
gate that is meant for it goes red for the reason that is meant, and that everything without a defect is green in the same run.
`kernel/defects/mutants.toml` breaks the real kernels of attention and decode by edits of their sources, `kernel/defects/*.cu` are small kernels of
their own, and evidence is damaged after it was taken. `gates/selftest.toml` lists who must catch what;
`flashcore-ci selftest --recorded` judges the recorded run again, without a GPU.
"""
TAIL = """
Seconds are what collecting the evidence of that target took: of a sanitizer's target the four tools together, of one that hangs its
time-out. `refused` means that the run cannot be read, exit code 4. Where a tool turned out not to see a defect, and which gate does,
is in [sanitizers.md](sanitizers.md); a number that is forged together with the manifest's digests is not seen by anything
([trust.md](trust.md)).
"""


def page(answers: Answers, where: str) -> str:
    """The whole page."""
    end = table.summary(answers.caught, answers.not_green, answers.uncontrolled)
    return "\n".join([HEAD, f"Recorded on {where}.", "", *table.markdown(answers.caught), "", f"**{end[-1]}**", TAIL])


def main(target: Path) -> None:
    """Judge the recording and write the page."""
    test = load(ROOT / FILE)
    device = read_run(ROOT / test.recording).evidence.provenance
    with tempfile.TemporaryDirectory() as out:
        request = Request(suite=Path(test.suite), out=Path(out), environ=os.environ)
        answers = from_recording(test, request, lambda _: None)
    named = f"one {device.device.name}, driver {device.device.driver}" if device.device else "a machine without a GPU"
    told = json.loads((ROOT / test.recording).with_name("defects.json").read_bytes())
    where = (
        f"{named}, {device.collected_at[:10]}; its processes took {told['seconds']:.0f} s from the first to the end of the last"
    )
    target.write_text(page(answers, where), encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)

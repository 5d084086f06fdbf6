"""Write docs/selftest.md from the recorded run of the broken kernels. Usage: generate_selftest.py [FILE]."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from flashcore_ci.run.request import Request
from flashcore_ci.selftest import table
from flashcore_ci.selftest.model import SelfTestResult
from flashcore_ci.selftest.selftest import load_selftest, run_recorded
from flashcore_ci.store.run import read_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/selftest.md"
HEAD = """# The self-test

<!-- Written by tools/docs/generate_selftest.py (`make generate`); do not edit. -->

`flashcore-ci selftest` breaks the kernels on purpose. For each defect the intended gate must fail, with the intended reason code. Everything
without a defect must pass in the same run. A gate that never failed proves nothing.

- `kernel/defects/mutants.toml` edits the sources of the real attention and decode kernels.
- `kernel/defects/*.cu` are small broken kernels.
- Broken evidence is damaged after it was recorded.

`gates/selftest.toml` lists which gate must catch what. `flashcore-ci selftest --recorded` judges the recorded run again, without a GPU.
"""
TAIL = """
- Seconds are the time to collect the evidence of that target. For a sanitizer they cover the four tools together, and for a hang the
  timeout.
- `refused` means that the run cannot be read (exit code 4).
- [sanitizers.md](sanitizers.md) says which defects a sanitizer does not see, and which gate does.
- A number forged together with the digests in the manifest is not detected ([trust.md](trust.md)).
"""


def page(result: SelfTestResult, where: str) -> str:
    """The whole page."""
    end = table.summary(result)
    return "\n".join([HEAD, f"Recorded on {where}.", "", *table.as_markdown(result), "", f"**{end[-1]}**", TAIL])


def main(target: Path) -> None:
    """Judge the recording and write the page."""
    test = load_selftest(ROOT)
    device = read_run(ROOT / test.recording).evidence.provenance
    with tempfile.TemporaryDirectory() as out:
        request = Request(suite=Path(test.suite), out=Path(out), environ=os.environ)
        result = run_recorded(test, request, lambda _: None)
    named = f"one {device.device.name}, driver {device.device.driver}" if device.device else "a machine without a GPU"
    told = json.loads((ROOT / test.recording).with_name("defects.json").read_bytes())
    where = f"{named}, {device.collected_at[:10]}. The run took {told['seconds']:.0f} s from its first process to its last"
    target.write_text(page(result, where), encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)

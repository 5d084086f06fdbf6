"""Write the documents that come from code, samples and recorded evidence.

usage: python3 tools/docs/generate.py [--check] NAME ...     NAME: codes schemas selftest performance roofline

--check writes nothing. Its exit status is 1 if a file is not up to date.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools/bench"), str(ROOT / "tools/docs")]

import roofline  # noqa: E402 - from the folders above, which are not installed
from peerbench import page, samples  # noqa: E402

from flashcore_ci.cli.selftest import FILE, from_recording  # noqa: E402
from flashcore_ci.model.codes import NEXT_STEP, Code  # noqa: E402
from flashcore_ci.model.errors import MEANING, ExitCode, FlashcoreError  # noqa: E402
from flashcore_ci.report.explain import verdict_of  # noqa: E402
from flashcore_ci.run.request import Request  # noqa: E402
from flashcore_ci.selftest import table  # noqa: E402
from flashcore_ci.selftest.loader import load  # noqa: E402
from flashcore_ci.store.run import read_run  # noqa: E402
from flashcore_ci.store.schemas import PUBLISHED, schema_text  # noqa: E402

BANNER = "<!-- Written by tools/docs/generate.py (`make generate`). Do not edit. -->"

EXIT_CODES = f"""\
# Exit codes

{BANNER}

Exit codes 0, 10 and 11 are verdicts. A kernel that does not compile, hangs, is wrong or slow gives a verdict.
Exit codes 1 to 4 are errors: something kept the tool from judging. The tool writes `junit.xml`, `report.json` and
`summary.md` in both cases. An error is never green in them.

| code | meaning | raised as |
| --- | --- | --- |
"""
REASONS = f"""\
# Reason codes

{BANNER}

Every verdict has one of these codes. FAIL means that the kernel is at fault. INCONCLUSIVE means that there is no
reading, so nothing is known about the kernel. Both block if the gate blocks. `flashcore-ci explain CODE` shows one row.

| code | verdict | next step |
| --- | --- | --- |
"""
SELFTEST = f"""\
# The self-test

{BANNER}

`flashcore-ci selftest` breaks the kernels on purpose. For each defect the intended gate must fail, with the intended reason code. Everything
without a defect must pass in the same run. A gate that never failed proves nothing.

- `kernel/defects/mutants.toml` edits the sources of the real attention and decode kernels.
- `kernel/defects/*.cu` are small broken kernels.
- Broken evidence is damaged after it was recorded.

`gates/selftest.toml` lists which gate must catch what. `flashcore-ci selftest --recorded` judges the recorded run again, without a GPU.

Recorded on {{where}}.

{{rows}}

**{{end}}**

- Seconds are the time to collect the evidence of that target. For a sanitizer they cover the four tools together, and for a hang the
  timeout.
- `refused` means that the run cannot be read (exit code 4).
- [sanitizers.md](sanitizers.md) says which defects a sanitizer does not see, and which gate does.
- A number forged together with the digests in the manifest is not detected ([trust.md](trust.md)).
"""


def codes() -> dict[str, str]:
    """List exit codes with the errors that lead to each, and reason codes."""
    errors = sorted(FlashcoreError.__subclasses__(), key=lambda error: error.__name__)
    exits, reasons = EXIT_CODES, REASONS
    for exit_code in ExitCode:
        names = ", ".join(f"`{error.__name__}`" for error in errors if error.exit_code is exit_code)
        exits += f"| {int(exit_code)} | {MEANING[exit_code]} | {names} |\n"
    for code in Code:
        reasons += f"| `{code}` | {verdict_of(code)} | {NEXT_STEP.get(code, '')} |\n"
    return {"docs/exit-codes.md": exits, "docs/reasons.md": reasons}


def schemas() -> dict[str, str]:
    """Derive the JSON schemas from the records."""
    return {f"docs/schemas/{name}": schema_text(name) for name in PUBLISHED}


def selftest() -> dict[str, str]:
    """Judge the recorded run of the broken kernels."""
    test = load(ROOT / FILE)
    device = read_run(ROOT / test.recording).evidence.provenance
    with tempfile.TemporaryDirectory() as out:
        request = Request(suite=Path(test.suite), out=Path(out), environ=os.environ)
        answers = from_recording(test, request, lambda _: None)
    name = f"one {device.device.name}, driver {device.device.driver}" if device.device else "a machine without a GPU"
    seconds = json.loads((ROOT / test.recording).with_name("defects.json").read_bytes())["seconds"]
    where = f"{name}, {device.collected_at[:10]}. The run took {seconds:.0f} s from its first process to its last"
    end = table.summary(answers.caught, answers.not_green, answers.uncontrolled)[-1]
    return {"docs/selftest.md": SELFTEST.format(where=where, rows="\n".join(table.markdown(answers.caught)), end=end)}


def performance() -> dict[str, str]:
    """Draw the page on peers, and a part of README.md, from the samples."""
    run, serving = (samples.decode((ROOT / f"docs/performance/{name}.json.xz").read_bytes()) for name in ("peers", "serving"))
    return {**page.files(run, serving), "README.md": page.readme((ROOT / "README.md").read_text(encoding="utf-8"), run, serving)}


GENERATORS: dict[str, Callable[[], dict[str, str]]] = {
    "codes": codes,
    "schemas": schemas,
    "selftest": selftest,
    "performance": performance,
    "roofline": roofline.committed,
}


def stale(root: Path, files: dict[str, str]) -> Iterable[str]:
    """Yield the paths below ``root`` that do not have the text of ``files``."""
    for path, text in files.items():
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text:
            yield path


def main(argv: list[str]) -> int:
    """Write or check the files, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="+", choices=GENERATORS, metavar="NAME", help=" ".join(GENERATORS))
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is not up to date")
    options = parser.parse_args(argv)
    files = {path: text for name in options.names for path, text in GENERATORS[name]().items()}
    problems = list(stale(ROOT, files))
    for path in problems:
        if options.check:
            sys.stderr.write(f"{path}: not up to date. Run make generate performance\n")
        else:
            (ROOT / path).write_text(files[path], encoding="utf-8")
            print(path)
    return int(options.check and bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Write the documents that come from code, samples and recorded evidence."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools/bench"), str(ROOT / "tools/docs")]

import roofline  # noqa: E402 - from the folders above, which are not installed
import suite_reference as suites  # noqa: E402
from blocks import filled  # noqa: E402
from peerbench import page, samples  # noqa: E402
from peerbench.columns import lines  # noqa: E402

from flashcore_ci.model.codes import NEXT_STEP, Code  # noqa: E402
from flashcore_ci.model.errors import MEANING, ExitCode, FlashcoreError  # noqa: E402
from flashcore_ci.model.metrics import METRICS  # noqa: E402
from flashcore_ci.model.subject import FUNCTIONS, BuildSpec, EntrySpec  # noqa: E402
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Rule  # noqa: E402
from flashcore_ci.report.explain import EVIDENCE, verdict_of  # noqa: E402
from flashcore_ci.report.formatting import CONDITIONS  # noqa: E402
from flashcore_ci.run.request import Request  # noqa: E402
from flashcore_ci.selftest import table  # noqa: E402
from flashcore_ci.selftest.selftest import load_selftest, run_recorded  # noqa: E402
from flashcore_ci.store.run import read_run  # noqa: E402
from flashcore_ci.store.schemas import PUBLISHED, schema_text  # noqa: E402
from flashcore_ci.suite.project import MEANING as PROJECT_KEYS  # noqa: E402
from flashcore_ci.suite.project import Project  # noqa: E402

SPECS = (("build()", BuildSpec), ("an entry of `entries`", EntrySpec))


def fill(path: str, **blocks: str) -> str:
    """Return the file with new text in its generated blocks."""
    return filled((ROOT / path).read_text(encoding="utf-8"), **blocks)


def codes() -> dict[str, str]:
    """List exit codes with the errors that lead to each, and reason codes."""
    errors = sorted(FlashcoreError.__subclasses__(), key=lambda error: error.__name__)
    exits = []
    for exit_code in ExitCode:
        names = ", ".join(f"`{error.__name__}`" for error in errors if error.exit_code is exit_code)
        exits.append((str(int(exit_code)), MEANING[exit_code], names))
    reasons = ((f"`{code}`", verdict_of(code), NEXT_STEP.get(code, "")) for code in Code)
    tables = {
        "docs/exit-codes.md": lines(("code", "meaning", "raised as"), exits),
        "docs/reasons.md": lines(("code", "verdict", "next step"), reasons),
    }
    return {path: fill(path, table=text) for path, text in tables.items()}


def schemas() -> dict[str, str]:
    """Derive the JSON schemas from the records, and that of suites from their tables."""
    published = {f"docs/schemas/{name}": schema_text(name) for name in PUBLISHED}
    return {**published, f"docs/schemas/{suites.SCHEMA}": suites.schema_text()}


def reference() -> dict[str, str]:
    """List suite keys, metrics, rules, kinds of evidence and the functions of a subject."""
    judged = {str(kind): "no" if kind in STATIC_KINDS else "yes" for kind in Kind}
    metrics = ((f"`{name}`", m.kind, m.unit, m.meaning, "yes" if m.sampled else "") for name, m in METRICS.items())
    functions = (
        (f"`{name}({', '.join(each.parameters)})`", each.meaning, ", ".join(map("`{}`".format, each.keys)))
        for name, each in FUNCTIONS.items()
    )
    spec = [
        (record, f"`{field.name}`", "" if field.default is MISSING else str(field.default))
        for record, kind in SPECS
        for field in fields(kind)
    ]
    project = ((f"`{key}`", meaning, f"`{Project().resolved()[key]}`") for key, meaning in PROJECT_KEYS.items())
    tables = {
        "keys": lines(("table", "key", "meaning", "default"), suites.key_rows()),
        "standard": lines(("gate", "metric", "at most"), suites.standard_rows()),
        "metrics": lines(("metric", "evidence", "unit", "meaning", "one sample per process"), metrics),
        "rules": lines(("rule", "a value passes if it is"), ((f"`{rule}`", f"{CONDITIONS[rule]} the limit") for rule in Rule)),
        "kinds": lines(("kind", "source", "in `collect`"), ((f"`{kind}`", EVIDENCE[kind], judged[str(kind)]) for kind in Kind)),
        "functions": lines(("function", "meaning", "keys that it returns"), functions),
        "spec": lines(("record", "key", "default"), spec),
        "project": lines(("key", "meaning", "default"), project),
    }
    return {"docs/reference.md": fill("docs/reference.md", **tables)}


def selftest() -> dict[str, str]:
    """Judge the recorded run of the broken kernels."""
    test = load_selftest(ROOT)
    device = read_run(ROOT / test.recording).evidence.provenance
    with tempfile.TemporaryDirectory() as out:
        request = Request(suite=Path(test.suite), out=Path(out), environ=os.environ)
        result = run_recorded(test, request, lambda _: None)
    name = f"one {device.device.name}, driver {device.device.driver}" if device.device else "a machine without a GPU"
    seconds = json.loads((ROOT / test.recording).with_name("defects.json").read_bytes())["seconds"]
    where = f"{name}, {device.collected_at[:10]}. The run took {seconds:.0f} s from its first process to its last"
    text = [f"Recorded on {where}.", "", *table.as_markdown(result), "", f"**{table.summary(result)[-1]}**", ""]
    return {"docs/selftest.md": fill("docs/selftest.md", table="\n".join(text))}


def performance() -> dict[str, str]:
    """Draw the page on peers, and a part of README.md, from the samples."""
    run, serving = (samples.decode((ROOT / f"docs/performance/{name}.json.xz").read_bytes()) for name in ("peers", "serving"))
    pages = {
        page.PAGE: fill(page.PAGE, **page.blocks(run, serving)),
        "README.md": fill("README.md", samples=page.readme(run, serving)),
    }
    return {**pages, **page.pictures(run, serving)}


def roofs() -> dict[str, str]:
    """Draw the roofline from the committed evidence."""
    ridge, found = roofline.committed()
    text = fill(roofline.PAGE, **roofline.blocks(found, ridge))
    return {roofline.PAGE: text, roofline.PICTURE: roofline.picture(found, ridge)}


GENERATORS: dict[str, Callable[[], dict[str, str]]] = {
    "codes": codes,
    "schemas": schemas,
    "reference": reference,
    "selftest": selftest,
    "performance": performance,
    "roofline": roofs,
}


def stale(root: Path, files: dict[str, str]) -> Iterable[str]:
    """Yield the paths whose text differs."""
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

"""Write the rates of every recording: the table of docs/history-detectors.md, detector-rows.csv, and the section of the untouched one.

    python tools/detectors/publish.py [--suites 500] [--trials 1000] [--untouched FILE]

FILE is a recording that the rule was not changed on. Without it the section says that none is there. A row joins the GPUs of a sitting,
and a round is of one of them. Draws are seeded.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
from histories import ROOT, recorded_rows, sitting_rows
from predicted import PREDICTED, rule_digest, standing

PERFORMANCE = ROOT / "docs/performance"
PAGE = ROOT / "docs/history-detectors.md"
RECORDINGS = {
    "first": None,
    "second": PERFORMANCE / "kernel-versions.json.xz",
    "third": PERFORMANCE / "process-medians.json.xz",
    "fourth": PERFORMANCE / "sitting-2026-11-23.tar.xz",
}
TITLES = (
    "recording", "row", "scatter of a process (%)", "step (%)", "seen at its commit (%)", "95 % lower bound",
    "smallest step seen in 99 % (%)", "creep in time (%)", "95 % lower bound", "median delay (commits)",
)  # fmt: skip
NORMAL, SEEN = 0.15, 99.0
HEADS = ("recording", "false alerts, clean (95 % bound per 1,000)", "disturbed")
CLASSES = ("≤ 0.07 %: rows that see +0.3 % in 99 %", "≤ 0.15 %: rows that see +0.5 % in 99 %")


@dataclass(frozen=True)
class Figures:
    """The rates of one recording. A line has what ``TITLES`` name."""

    name: str
    lines: list[list[str]]
    scatters: list[float]
    clean: tuple[int, str]
    disturbed: tuple[int, str]

    def of_class(self, step: str) -> tuple[list[list[str]], list[list[str]]]:
        """Return the rows for which a step is demanded, and those of them that see it."""
        rows = [line for line, scatter in zip(self.lines, self.scatters, strict=True) if line[3] == step and scatter <= NORMAL]
        return rows, [line for line in rows if float(line[4]) >= SEEN]

    def cell(self, step: str) -> str:
        """Say how many rows of a class see their step."""
        rows, seen = self.of_class(step)
        return f"{len(seen)} of {len(rows)}" + (f", the lowest {min(float(line[4]) for line in rows):.1f} %" if rows else "")


def measured(name: str, path: Path | None, suites: int, trials: int) -> Figures:
    """Compute the rates of one recording."""
    rows = sitting_rows(path) if path else recorded_rows()
    clean, disturbed = ((int(str(line[2])), str(line[3])) for line in benchmark.false_alerts(rows, suites))
    warm = benchmark.warmed(rows, trials)
    lines = []
    for row, step, creep in zip(rows, benchmark.steps(rows, warm, trials), benchmark.creep(rows, warm, trials), strict=True):
        seen, late = (str(each).replace("≥", "").replace("(", "").replace(")", "").split() for each in (step[3], creep[2]))
        smallest = str(step[4]).removesuffix(" %")
        wanted = str(step[2]).strip("+ %")
        lines.append([name, row.name, str(step[1])[:-2], wanted, seen[0], seen[2], smallest, late[0], late[2], str(creep[3])])
    return Figures(name, lines, [100 * row.scatter for row in rows], clean, disturbed)


def summary(found: list[Figures]) -> str:
    """Return the table of all recordings."""
    rows = [
        [each.name, f"{each.clean[0]} ({each.clean[1]})", f"{each.disturbed[0]} ({each.disturbed[1]})",
         each.cell("0.3"), each.cell("0.5")]
        for each in found
    ]  # fmt: skip
    quiet = sum(len(each.of_class(step)[0]) for each in found for step in ("0.3", "0.5"))
    seen = sum(len(each.of_class(step)[1]) for each in found for step in ("0.3", "0.5"))
    slow = [line for each in found for step in ("0.3", "0.5") for line in each.of_class(step)[0] if float(line[7]) < 95.0]
    everyone = [line for each in found for line in each.lines]
    in_time = sum(float(line[7]) >= 95.0 for line in everyone)
    said = f"{seen} of {quiet} rows that scatter ≤ 0.15 % see their step in 99 %. "
    said += (
        f"Creep is found in time in ≥ 95 % for {quiet - len(slow)} of {quiet} of them, and for {in_time} of all {len(everyone)}."
    )
    return f"{benchmark.table([*HEADS, *CLASSES], rows)}\n\n{said}"


def about(path: Path) -> dict[str, Any]:
    """Read what a sitting says about itself, with the number of processes per GPU."""
    with tarfile.open(path) as archive:
        names = archive.getnames()
        member = archive.extractfile("sitting/sitting.json")
        assert member is not None
        facts: dict[str, Any] = json.load(io.TextIOWrapper(member, encoding="utf-8"))
    folders = sorted({name.split("/")[1] for name in names if "/gpu-" in name})
    facts["processes"] = [sum(f"/{folder}/process-" in name for name in names) for folder in folders]
    return facts


def untouched(path: Path | None, found: Figures | None, trials: int) -> str:
    """Return the section of the recording that the rule has not seen."""
    if path is None or found is None:
        rows = [[what, predicted, ""] for what, predicted in PREDICTED]
        return "No recording is untouched for this rule yet. Predicted for the next one:\n\n" + benchmark.table(
            ["what", "predicted", "found"], rows
        )
    facts, planted = about(path), list(benchmark.planted(path))
    near = sum(abs(float(str(line[3]).split()[0]) - float(str(line[2]).split()[0])) <= 0.1 for line in planted)
    quiet, normal = found.of_class("0.3"), found.of_class("0.5")
    both = [*quiet[0], *normal[0]]
    values = (
        len(found.lines), len(quiet[0]), f"{len(quiet[1])} of {len(quiet[0])}", len(normal[0]), f"{len(normal[1])} of {len(normal[0])}",
        f"{sum(float(line[7]) >= 95.0 for line in both)} of {len(both)}",
        f"{found.clean[0]} ({found.clean[1]})", f"{found.disturbed[0]} ({found.disturbed[1]})",
        f"{near} of {len(planted)}",
    )  # fmt: skip
    name, driver = facts["gpus"][0].split(", ")[0], facts["gpus"][0].split(", ")[-1]
    counts = " and ".join(map(str, facts["processes"]))
    gpus = f"{len(facts['processes'])} {name} (driver {driver}) of one host at the same time"
    text = (
        f"`performance/{path.name}`: {facts['at'][:16]}, {gpus}, {counts} processes.\n{standing(facts['at'], rule_digest())}\n\n"
    )
    rows = [[what, predicted, value] for (what, predicted), value in zip(PREDICTED, values, strict=True)]
    missed = [line for line in both if line not in quiet[1] and line not in normal[1]]
    named = [f"`{line[1]}` scatters {line[2]} % and saw +{line[3]} % in {line[4]} % (≥ {line[5]} %)" for line in missed]
    lines = [
        [
            line[1],
            f"{line[2]} %",
            f"+{line[3]} %",
            f"{line[4]} % (≥ {line[5]} %)",
            line[6] + " %" * line[6][0].isdigit(),
            f"{line[7]} %",
        ]
        for line in found.lines
    ]
    heads = ["row", "scatter", "step", f"seen at the commit, of {trials}", "smallest step ≥ 99 %", "creep in time"]
    tables = [benchmark.table(["what", "predicted", "found"], rows), f"Missed: {', '.join(named) or 'none'}."]
    tables += [benchmark.table(heads, lines)]
    tables += [benchmark.table(["kernel", "GPU", "planted", "measured", "pairs"], planted)] if planted else []
    return text + "\n\n".join(tables)


def put(block: str, text: str) -> None:
    """Replace a marked block of the page."""
    begin, end = f"<!-- {block}: tools/detectors/publish.py -->", f"<!-- end of {block} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(begin)[0], page.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def all_lines(found: list[Figures]) -> Iterator[list[str]]:
    """Yield the lines of the CSV."""
    yield list(TITLES)
    for each in found:
        yield from each.lines


def main() -> None:
    """Compute and write everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", type=int, default=500)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--untouched", type=Path)
    options = parser.parse_args()
    found = [measured(name, path, options.suites, options.trials) for name, path in RECORDINGS.items()]
    put("recordings", summary(found))
    fifth = measured("fifth", options.untouched, options.suites, options.trials) if options.untouched else None
    put("untouched", untouched(options.untouched, fifth, options.trials))
    found += [fifth] if fifth else []
    with (PERFORMANCE / "detector-rows.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(all_lines(found))


if __name__ == "__main__":
    main()

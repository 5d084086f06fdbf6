"""Write the tables of docs/performance/kernel-versions.md: ``python tools/study/kernel_versions_page.py FILE``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kernel_versions import NAMES, ROOT, WORKLOADS, code_of, specify
from kernel_versions_past import CONTROL, Past

from flashcore_ci.model.suite import Roof, Workload

PAGE = ROOT / "docs/performance/kernel-versions.md"
TOLERANCE = 2e-3
"""A larger difference from the newest version's results is named."""


def table(past: Past, subject: str) -> Iterator[str]:
    """Yield Markdown: commit, and per row registers, spills, what it reaches, and the change to the version before."""
    workloads = [workload for workload in WORKLOADS if workload.subject == subject]
    yield " | ".join(["| version | commit", *(workload.id for workload in workloads), "what changed |"])
    yield "| --- " * (3 + len(workloads)) + "|"
    before: dict[str, str] = {}
    versions = [
        (row, {w.id: name for w, name in rows})
        for row, rows in past.new_rows()
        if rows[0][0].subject == subject or rows[-1][0].subject == subject
    ]
    for number, (row, names) in enumerate(versions, start=1):
        cells = [cell(past, row, workload, names.get(workload.id), before) for workload in workloads]
        yield " | ".join([f"| {number} | `{row['commit'][:7]}`", *cells, f"{row['subject'].partition(';')[0][:48].strip()} |"])


def cell(past: Past, row: dict[str, Any], workload: Workload, name: str | None, before: dict[str, str]) -> str:
    """Write one version of a row, and remember it."""
    if name is None:
        return ""
    entry = specify(row, workload.subject).problem(workload.id).entries[0]
    built = past.build(row, workload.subject).entry(entry)
    assert built is not None
    resources = f"{built.highest_register} / {built.spill_store_bytes + built.spill_load_bytes}"
    if not name:
        return f"{resources}, not measured"
    differs = max(
        (row.get(name, {}).get("difference", 0.0) for each in past.recordings for row in each.rows(workload.id)), default=0.0
    )
    resources += f", differs by {differs:.2g}" if differs > TOLERANCE else ""
    problem, memory = specify(row, workload.subject).problem(workload.id), workload.roof is Roof.MEMORY
    ms = statistics.median(past.times(workload, name, "ms"))
    shown = f"{problem.bytes / ms / 1e9:.2f} TB/s" if memory else f"{problem.flops / ms / 1e9:.0f} TFLOP/s"
    old, before[workload.id] = before.get(workload.id), name
    if old is None or old == name:
        return f"{resources}, {shown}"
    scale = "ms" if memory else "megacycles"
    pairs = zip(past.times(workload, name, scale, old), past.times(workload, old, scale, name), strict=True)
    return f"{resources}, {shown} ({100 * (1 / statistics.median(a / b for a, b in pairs) - 1):+.1f} %)"


def rest(past: Past) -> Iterator[str]:
    """Yield Markdown: all other commits by reason."""
    yield "| prefill | decode | commits |\n| --- | --- | --- |"
    first: dict[tuple[str, str], str] = {}
    groups: dict[str, list[str]] = {}
    versions = {row["commit"] for row, _ in past.new_rows()}
    for row in past.versions:
        cells, name = [], f"`{row['commit'][:7]}`"
        for subject in NAMES:
            build = row["builds"][subject]
            error = build.get("error") or (build["evidence"]["error"] or {}).get("message", "")
            error = error.replace("the commit has no such kernel", "none yet")
            codes = [code_of(row, workload) or "" for workload in WORKLOADS if workload.subject == subject]
            same = first.setdefault((subject, str(codes)), name)
            cells.append(error.replace("`", "").replace("'", "") or f"as {same}")
        if row["commit"] not in versions:
            groups.setdefault(" | ".join(cells), []).append(name)
    yield from (f"| {cells} | {', '.join(names)} |" for cells, names in groups.items())


def apart(past: Past) -> str:
    """Say how the versions were timed that shared a variable."""
    if len(past.recordings) == 1:
        return "The measurement waits for a GPU. Until then these versions have no time, and prefill has no ratio to an anchor. Version 17 was never timed."
    one = past.recordings[1]
    facts = one.sitting
    name, _, driver = facts["gpus"][int(facts["visible"])].split(", ")[:3]
    workloads = [workload for workload in WORKLOADS if one.has(workload.id, CONTROL[0])]
    offs = []
    for workload in workloads:
        pairs = zip(*(past.times(workload, each, "megacycles", CONTROL[0]) for each in CONTROL), strict=True)
        offs.append(f"{100 * (statistics.median(a / b for a, b in pairs) - 1):+.2f} %")
    return "\n".join((
        f"On {facts['at'][:10]} one {name} (driver {driver}) timed them again, with version 14. Each process loaded one version, and a round has one",
        f"process per version in random order. {len(one.processes)} rounds are complete. Versions 18 and 19 have the same code. In cycles they differ by",
        f"{', '.join(offs)}, which is what such a sitting cannot tell apart. The ratio of version 15 to 14 is of this sitting.",
    ))  # fmt: skip


def put(page: str, block: str, text: str) -> str:
    """Replace a marked block."""
    begin, end = f"<!-- {block}: tools/study/kernel_versions_page.py -->", f"<!-- end of {block} -->"
    before, after = page.split(begin, maxsplit=1)[0], page.split(end)[1]
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main() -> int:
    """Write all blocks."""
    past, page = Past(Path(sys.argv[1])), PAGE.read_text(encoding="utf-8")
    for subject, title in zip(NAMES, ("prefill", "decode"), strict=True):
        page = put(page, title, "\n".join(table(past, subject)))
    page = put(put(page, "apart", apart(past)), "others", "\n".join(rest(past)))
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

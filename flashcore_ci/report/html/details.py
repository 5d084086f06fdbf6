"""Render findings, budgets, provenance, and the commands that repeat the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from flashcore_ci.model.dossier import Dossier, Excerpt
from flashcore_ci.model.evidence import EntryBuild, Finding
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.markup import Child, Markup, code, join, scrolling, table, tag

MOST_SHARED = 232_448
"""Most bytes of shared memory per block at compute capability 9.0 (CUDA C++ Programming Guide, technical specifications)."""
MOST_FINDINGS = 100
MOST_COMMANDS = 20


def findings(report: Report, dossier: Dossier) -> Markup:
    """Return every finding with the source around its line."""
    pairs = [(verdict, finding) for verdict in report.verdicts for finding in verdict.findings]
    if not pairs:
        return tag("p", "None.")
    excerpts = {(excerpt.file, excerpt.line): excerpt for excerpt in dossier.excerpts}
    shown = (_finding(verdict, finding, excerpts.get((finding.file, finding.line))) for verdict, finding in pairs[:MOST_FINDINGS])
    rest = len(pairs) - MOST_FINDINGS
    return join((*shown, tag("p", f"… and {rest} more in report.json") if rest > 0 else None))


def _finding(verdict: Verdict, finding: Finding, excerpt: Excerpt | None) -> Markup:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file or "place unknown"
    kernel = f", kernel {finding.kernel}" if finding.kernel else ""
    return tag(
        "div",
        tag("h4", f"{finding.tool} on {verdict.target}{kernel}"),
        tag("p", formatting.shorten(formatting.describe_finding(finding), 600)),
        tag("p", tag("code", place)),
        _source(excerpt) if excerpt else tag("p", "The source is not in this checkout.", class_="soft small"),
        class_="finding",
    )


def _source(excerpt: Excerpt) -> Markup:
    width = len(str(excerpt.first + len(excerpt.lines)))
    rows: list[Child] = []
    for number, line in enumerate(excerpt.lines, start=excerpt.first):
        row = code([f"{number:>{width}}  {line}"])
        rows.append(tag("mark", row) if number == excerpt.line else row)
        rows.append(Markup("\n"))
    return tag("pre", *rows[:-1], tabindex="0", role="region", aria_label=f"{excerpt.file}, line {excerpt.line}")


def budgets(report: Report, dossier: Dossier) -> Markup:
    """Return registers and shared memory of every entry function."""
    entries = [entry for build in report.builds for entry in build.entries]
    if not entries:
        return tag("p", "Nothing was compiled.")
    head = ("entry function", "registers", "shared memory", "spills", "stack")
    note = (
        "Registers: the highest register in the machine code, of the budget per thread that the subject declares. "
        f"Shared memory: static plus dynamic bytes, of at most {MOST_SHARED:,} per block (compute capability 9.0)."
    )
    rows = (_budget(entry, dossier) for entry in entries)
    return join((scrolling("Budgets", table(head, rows)), tag("p", note, class_="soft small")))


def _budget(entry: EntryBuild, dossier: Dossier) -> Markup:
    spec = dossier.entry(entry.symbol)
    shared = entry.static_shared_bytes + entry.dynamic_shared_bytes
    registers: Child = f"{entry.highest_register}, budget unknown"
    if spec is not None and spec.max_registers > 0:
        used = f"{entry.highest_register} of {spec.max_registers}"
        registers = join((used, _meter(entry.highest_register / spec.max_registers, f"{used} registers")))
    return tag(
        "tr",
        tag("th", entry.symbol, scope="row", class_="mono"),
        tag("td", registers),
        tag("td", _bytes(shared), _meter(shared / MOST_SHARED, f"{shared:,} of {MOST_SHARED:,} bytes")),
        tag("td", _bytes(entry.spill_store_bytes + entry.spill_load_bytes), class_="num"),
        tag("td", _bytes(entry.stack_bytes), class_="num"),
    )


def _bytes(count: int) -> str:
    return formatting.number(float(count), "byte")


def _meter(share: float, label: str) -> Markup:
    bar = tag("rect", width=min(share, 1.0) * 150, height=8, rx=2, class_=charts.fullness(share))
    track = tag("rect", width=150, height=8, rx=2, class_="track")
    return tag("svg", track, bar, viewBox="0 0 150 8", width=150, height=8, role="img", aria_label=label)


def provenance(report: Report) -> Markup:
    """Return where, when and with which tools evidence was measured."""
    judged = f"as of {report.as_of} by flashcore-ci {report.tool}"
    rows = [("judged", judged), ("judged commit", report.judged_commit or "unknown"), *_measured(report)]
    for build in report.builds:
        rows.append((f"{build.subject}: compiler", f"{build.compiler} {' '.join(build.options)}"))
        rows.append((f"{build.subject}: library", f"{build.library} {build.library_digest}"))
    rows += [("evidence", line) for line in formatting.origins(report.verdicts)]
    body = (tag("tr", tag("th", name, scope="row"), tag("td", value, class_="mono")) for name, value in rows)
    return tag("table", tag("tbody", *body), class_="list")


def _measured(report: Report) -> Iterator[tuple[str, str]]:
    found = report.provenance
    if found is None:
        yield "measured", "nothing"
        return
    yield "measured", f"{found.collected_at} by flashcore-ci {found.version}"
    yield "evidence of commit", f"{found.commit or 'unknown'}{' with uncommitted changes' if found.dirty else ''}"
    device = found.device
    if device is None:
        yield "device", "none"
    else:
        capability = f"compute capability {device.compute_capability}"
        yield "device", f"{device.name}, {device.multiprocessors} SMs, {capability}, driver {device.driver}"
        yield "device memory", f"{device.memory / 2**30:.1f} GiB, L2 {device.l2 / 2**20:.0f} MiB, {device.uuid}"
    yield "clocks", found.clock_policy or "unknown"
    yield "tools", ", ".join(f"{name} {version}" for name, version in found.tools) or "none"


def repeat(report: Report, dossier: Dossier) -> Markup:
    """Return commands for the run, each red check, and the verdict."""
    suite = f" --suite {shlex.quote(formatting.printable(dossier.suite_file))}" if dossier.suite_file else ""
    commit = shlex.quote(formatting.printable(report.judged_commit))
    steps = [("Check out the judged commit", f"git checkout {commit}")] if report.judged_commit else []
    steps.append(("Run everything, on a machine with the GPU", f"flashcore-ci gate{suite} --live"))
    red = dict.fromkeys(f"{v.gate}/{v.target}" for v in report.verdicts if v.outcome is not Outcome.PASS)
    one = f"flashcore-ci gate{suite} --live --only"
    steps += [(f"Run only {key}", f"{one} {shlex.quote(formatting.printable(key))}") for key in list(red)[:MOST_COMMANDS]]
    steps.append(("Judge the run folder again, without a GPU", f"flashcore-ci judge runs/latest{suite}"))
    rest = len(red) - MOST_COMMANDS
    return join((*_steps(steps), tag("p", f"… and {rest} more in the same way.") if rest > 0 else None))


def _steps(steps: Iterable[tuple[str, str]]) -> Iterator[Markup]:
    for what, command in steps:
        yield join((tag("p", what, class_="small"), tag("pre", code([command]), tabindex="0", role="region", aria_label=what)))

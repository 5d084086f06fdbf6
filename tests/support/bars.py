"""Two versions of a small suite, and whether their difference blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from factories import make_description, make_entry_spec, make_problem

from flashcore_ci.judge import bar as judging
from flashcore_ci.model.bar import Acceptance, BarDifference, Side
from flashcore_ci.model.verdict import Origin, Verdict
from flashcore_ci.plan import bar
from flashcore_ci.suite.loader import load

SUITE = """
name = "tiny"
[ridge]
device = "NVIDIA H200"
flops = 989e12
bandwidth = 4.8e12
[protocol]
timing_processes = 9
repeats = 3
[protocol.timeouts]
timing = 60
correctness = 30

[[subject]]
name = "scale"
file = "scale.py"

[[workload]]
id = "big-{n}"
subject = "scale"
roof = "memory"
seed = 7
collect = ["correctness", "sanitizer", "timing", "comparison"]
tags = ["normal", "large"]
each = { n = [1, 2] }

[[workload]]
id = "edge"
subject = "scale"
roof = "memory"
collect = ["correctness", "sanitizer"]
tags = ["normal"]
params = { n = 3, lengths = "ragged" }

[[gate]]
id = "build"
title = "it compiles"
evidence = "build"
metric = "build/errors"
rule = "=="
limits = [{ value = 0, unit = "count" }]
why = "because"
owner = "kernels"

[[gate]]
id = "registers"
title = "the budget holds"
evidence = "resources"
metric = "registers/budget-used"
rule = "<="
limits = [{ value = 100, unit = "%" }]
why = "because"
owner = "kernels"

[[gate]]
id = "max-diff"
title = "close to PyTorch"
evidence = "correctness"
metric = "diff/max"
rule = "<"
limits = [{ on = "big-*", value = 2e-3, unit = "abs" }, { value = 1e-3, unit = "abs" }]
why = "because"
owner = "kernels"

[[gate]]
id = "finite"
title = "all finite"
evidence = "correctness"
metric = "finite/bad-values"
rule = "=="
limits = [{ value = 0, unit = "count" }]
tags = ["normal"]
why = "because"
owner = "kernels"

[[gate]]
id = "memcheck"
title = "in bounds"
evidence = "sanitizer"
metric = "memcheck/findings"
rule = "=="
limits = [{ value = 0, unit = "count" }]
why = "because"
owner = "kernels"

[[gate]]
id = "stability"
title = "steady"
evidence = "timing"
metric = "cycles/gpu/cold"
statistic = "relative-std"
min_samples = 5
rule = "<"
limits = [{ value = 2, unit = "%" }]
roofs = ["memory"]
on = ["big-*"]
why = "because"
owner = "kernels"

[[gate]]
id = "no-slower"
title = "no slower"
evidence = "comparison"
metric = "slowdown/primary"
statistic = "slowdown"
rule = "<="
limits = [{ value = 0.3, unit = "%" }]
why = "because"
owner = "kernels"
"""
WAIVERS = """
[[waiver]]
gate = "max-diff"
target = "edge"
reason = "known"
owner = "kernels"
expires = 2026-12-13
"""
SELFTEST: dict[str, Any] = {
    "suite": "gates/defects.toml",
    "clean": ["sound-*", "stream*"],
    "defect": [
        {"name": "mask off by one", "gate": "max-diff", "target": "mask", "reason": "over-limit"},
        {"name": "planted 1 %", "gate": "no-slower", "target": "big-1", "reason": "slower", "slower": 1.0},
        {"name": "cut log", "gate": "memcheck", "damage": "cut-log", "reason": "tool-failed"},
    ],
}
ENTRIES = (
    make_entry_spec("scale_f32", max_registers=64, requires=("HGMMA", "LDG"), max_waits_per_hgmma=0.5),
    make_entry_spec("scale_f16", max_registers=96, requires=("HGMMA",), max_waits_per_hgmma=0.5),
)
STAR = "from elsewhere import *\n"
"""A subject whose functions cannot be read."""
ORIGIN = Origin(kind="live", detail="a test")


def read(folder: Path, suite: str = SUITE, waivers: str = WAIVERS, **changes: Any) -> Side:
    """Load this suite from a new folder, with ordinary subjects and references."""
    folder.mkdir(exist_ok=True)
    for name, text in (("tiny.toml", suite), ("waivers.toml", waivers), ("scale.py", STAR), ("other.py", STAR)):
        (folder / name).write_text(text, encoding="utf-8")
    loaded = load(folder / "tiny.toml", root=folder)
    values: dict[str, Any] = {
        "suite": loaded,
        "descriptions": (describe(tuple(workload.id for workload in loaded.workloads)),),
        "references": {"noise/h200.json": "a", "baselines/h200.json": "b"},
        "subjects": {"scale": "s"},
        "dependencies": {"pyproject.toml project.dependencies": "d", "uv.lock": "l"},
        "selftest": SELFTEST,
    }
    return Side(**{**values, **changes})


def describe(workloads: tuple[str, ...], entries: Any = ENTRIES, **changes: Any) -> Any:
    """Describe the subject ``scale`` with these entry functions."""
    names = tuple(entry.symbol for entry in entries)
    described = make_description("scale", workloads=(), entries=())
    spec = replace(described.build, entries=tuple(entries))
    problems = tuple(make_problem(workload, entries=names[:1]) for workload in workloads)
    return replace(described, **{"build": spec, "problems": problems, **changes})


def edit(text: str, *edits: tuple[str, str]) -> str:
    """Exchange texts, each of which must be there."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def cut(text: str, first: str, last: str = "\n\n") -> str:
    """Remove a part that begins with ``first``."""
    begin = text.index(first)
    return text[:begin] + text[text.index(last, begin) + len(last) :]


def judged(base: Side, head: Side, *acceptances: Acceptance, **keywords: Any) -> tuple[Verdict, ...]:
    """Judge the difference."""
    return judging.judge_bar(bar.compare(base, head), acceptances, origin=ORIGIN, **keywords)


def blocks(verdicts: tuple[Verdict, ...]) -> bool:
    """Tell whether the change cannot merge."""
    return any(verdict.blocks for verdict in verdicts)


def accept(difference: BarDifference, /, **changes: str) -> Acceptance:
    """Accept this difference."""
    values = {"file": "a.toml", "base": difference.base, "difference": difference.digest, "why": "known", "owner": "kernels"}
    return Acceptance(**{**values, **changes})

"""A snapshot with everything that pages show, and text from outside that attacks them."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

from flashcore_ci.model.dashboard import AlertPart, AlertView, Dot, Line, Snapshot, Tally, Version
from flashcore_ci.model.history import Code, Commit, EntryFacts, Epoch, Machine, RunRow, Series, Standing, StoredVerdict
from flashcore_ci.model.suite import Roof
from flashcore_ci.model.verdict import Outcome

NOW = 1_795_000_000
DAY = 86_400
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</title></style><svg onload=document.title='owned'>",
    "javascript:document.title='owned'//",
    "\u202egnp.exe\u2066x\u200b\u2069",
    "\x1b[31mred\x1b]0;owned\x07\x9b1m",
    "line\nend\r\n\x00\ud800",
    "{{constructor.constructor('1')()}}${7*7}",
    "a" * 5_000,
)
KEY = "{:012x}"


def hostile(number: int) -> str:
    """One of the attacks, with a number."""
    return f"{number}{HOSTILE[number % len(HOSTILE)]}"


def machine(name: str = "NVIDIA H200") -> Machine:
    return Machine(
        id=1,
        name=name,
        uuid="GPU-0123456789abcdef",
        machine_class=f"{name}, sm_90",
        compute_capability="9.0",
        multiprocessors=132,
        memory=1 << 37,
        l2=1 << 25,
    )


def run_of(number: int, *, text: str = "", outcome: Outcome = Outcome.PASS) -> RunRow:
    """Run ``number``, one per day."""
    return RunRow(
        id=number,
        digest=f"{number:08x}" * 8,
        bundle="",
        suite=text or "hopper",
        commit=Commit(sha=text or f"{number:040x}", position=number, subject=text or f"kernel: change {number}"),
        branch=text or "main",
        standing=Standing.PROTECTED,
        dirty=False,
        collected_at=NOW - (60 - number) * DAY,
        added_at=NOW,
        outcome=outcome,
        headline=text or "PASS: all checks passed",
        machine=machine(text or "NVIDIA H200"),
        driver=text or "580.1",
        tools=((text or "nvcc", text or "13.0"),),
        checks=10,
        seconds=150.0,
        invocation="",
    )


def line_of(index: int, levels: list[float], *, text: str = "", anchored: bool = True, outcome: int = 0) -> Line:
    """A line with a point per run, whose levels are log ratios."""
    series = Series(
        id=index,
        suite=text or "hopper",
        workload=text or f"prefill-{index}",
        question="q",
        subject="attention",
        roof=Roof.COMPUTE,
        scale="megacycles",
        machine_class=text or "NVIDIA H200, sm_90",
    )
    dots = tuple(
        Dot(
            run=number,
            code=1 + number // 10,
            epoch=1 + number // 40,
            outcome=outcome if number == len(levels) - 1 else 0,
            ratio=level if anchored else None,
            error=0.0006 if anchored else None,
            value=1.1 * math.exp(level),
            std=0.001,
            ms=0.7 * math.exp(level),
            mhz=1600.0,
        )
        for number, level in enumerate(levels)
    )
    found = sorted({dot.code for dot in dots if dot.code})
    versions = tuple(Version(code, f"c{code}", 10 * (code - 1), min(10 * code - 1, len(levels) - 1), 10) for code in found)
    return Line(key=KEY.format(index), series=series, dots=dots, total=len(dots), versions=versions, flops=1e12, bytes=1e9)


def codes(text: str = "") -> dict[int, Code]:
    """Code whose registers grow with its version."""
    found = {}
    for number in range(1, 8):
        entry = EntryFacts(
            symbol=text or "attention_fwd",
            machine_code=f"m{number}",
            registers=160 + number,
            highest_register=160,
            spill_store_bytes=8 * (number % 2),
            spill_load_bytes=0,
            stack_bytes=0,
            static_shared_bytes=0,
            dynamic_shared_bytes=200_000,
            waits=0,
            opcodes=(("HGMMA", 256),),
        )
        found[number] = Code(
            id=number, identity=f"c{number}", machine_code="", launcher="", binding="", subject="", entries=(entry,)
        )
    return found


def snapshot(text: str = "", runs: int = 60) -> Snapshot:
    """Five lines: one regressed with an alert, one improved, one that failed, one unproven, one quiet."""
    numbers = random.Random(17)
    noise = lambda step: [numbers.gauss(0, 0.0008) + (step if number == runs - 1 else 0.0) for number in range(runs)]  # noqa: E731
    lines = (
        line_of(1, [level + 0.03 * (number > runs - 6) for number, level in enumerate(noise(0))], text=text),
        line_of(2, noise(-0.02)),
        line_of(3, noise(0), outcome=3),
        line_of(4, noise(0)[:3], anchored=False),
        line_of(5, noise(0)),
    )
    known = {number: run_of(number, text=text if number % 2 else "") for number in range(runs)}
    record = json.dumps(
        {"notes": [f"waived until 2026-12-01 by {text or 'me'}: {text or 'known'}"], "blocks": True}, separators=(",", ":")
    )
    verdict = StoredVerdict(
        run=runs - 1,
        gate=text or "no-slower",
        target="prefill-3",
        outcome=Outcome.FAIL,
        code=text or "over-limit",
        message=text or "3 % slower",
        record=record,
    )
    alert = AlertView(
        key=text or "abc-1",
        state="active",
        owner=text or "ann",
        reason=text,
        until="",
        opened_at=NOW - 3 * DAY,
        closed_at=None,
        parts=(AlertPart(line=lines[0].key, first=runs - 5, log_ratio=0.03, error=0.0004),),
        note=text or "registers 161 to 168",
    )
    return Snapshot(
        now=NOW,
        total_runs=runs,
        lines=lines,
        runs=known,
        recent=tuple(known.values()),
        detailed=tuple(sorted(known, reverse=True))[:20],
        machines=(machine(text or "NVIDIA H200"),),
        epochs={
            n: Epoch(id=n, machine=machine(text or "NVIDIA H200"), driver=text or "580", clock_policy="free", collector="c")
            for n in (1, 2)
        },
        codes=codes(text),
        verdicts=(verdict, replace(verdict, outcome=Outcome.WAIVED, target="prefill-5", record=record.replace("true", "false"))),
        tallies=(Tally("INCONCLUSIVE", text or "stale-evidence", text or "sol-sm", 5, 2, runs - 1),),
        alerts=(alert, replace(alert, key="def-2", state="ignored", closed_at=NOW)),
        stages={number: {"timing": 60.0, text or "sanitizer": 30.0} for number in known},
    )

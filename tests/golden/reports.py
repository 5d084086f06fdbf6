"""Hold the reports that every format is tested with. All numbers are made up."""

from __future__ import annotations

from dataclasses import replace

from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.evidence import Device, Finding, Provenance
from flashcore_ci.model.plan import Excluded
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind, Rule, Severity, scope_of
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report, Verdict

LIVE = Origin(kind="live", detail="NVIDIA H200, driver 580.159.04, 2026-11-21")
RECORDED = Origin(kind="recorded", detail="NVIDIA H200, driver 580.159.04, 2026-11-21, commit 0123456")
BUILT = Origin(kind="live", detail="nvcc 13.0.88")
NOWHERE = Origin(kind="none")

RULES = {
    "max-diff": (Kind.CORRECTNESS, Rule.LESS, 0.002, "abs", "Largest difference from PyTorch"),
    "finite": (Kind.CORRECTNESS, Rule.EQUAL, 0.0, "count", "No NaN, infinity or unwritten output"),
    "sol-sm": (Kind.PROFILE, Rule.AT_LEAST, 70.0, "%", "Speed of light of the SMs"),
    "sol-dram": (Kind.PROFILE, Rule.AT_LEAST, 85.0, "%", "Speed of light of the memory"),
    "racecheck": (Kind.SANITIZER, Rule.EQUAL, 0.0, "count", "No races on shared memory"),
    "stability": (Kind.TIMING, Rule.LESS, 2.0, "%", "Spread over fresh processes"),
    "build": (Kind.BUILD, Rule.EQUAL, 0.0, "count", "It compiles"),
    "registers": (Kind.RESOURCES, Rule.AT_MOST, 100.0, "%", "Register budget"),
}


def verdict(
    gate: str, target: str, reading: Reading | float, outcome: Outcome, code: Code, message: str, **changes: object
) -> Verdict:
    """Return one verdict on a gate of ``RULES``. FAIL and INCONCLUSIVE block unless ``changes`` say otherwise."""
    kind, rule, limit, unit, title = RULES[gate]
    red = outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}
    made = Verdict(
        gate=gate,
        title=title,
        evidence=kind,
        target=target,
        scope=scope_of(kind),
        subject="attention",
        outcome=outcome,
        severity=Severity.BLOCKING,
        blocks=red,
        deferred=False,
        reason=Reason(code=code, message=message),
        reading=Measured(value=reading, unit=unit) if isinstance(reading, float) else reading,
        rule=rule,
        limit=limit,
        unit=unit,
        origin=BUILT if kind in {Kind.BUILD, Kind.RESOURCES} else LIVE,
        next_step=NEXT_STEP.get(code, "") if red else "",
        why="`flashcore-ci` must not let a wrong kernel merge",
        seconds=1.23456789,
    )
    return replace(made, **changes)


def passed(gate: str, target: str, reading: float, **changes: object) -> Verdict:
    return verdict(gate, target, reading, Outcome.PASS, Code.WITHIN_LIMIT, "within its limit", **changes)


GREEN = Report(
    suite="hopper",
    tool="0.1.0",
    as_of="2026-11-21T08:00:00Z",
    outcome=Outcome.PASS,
    exit_code=0,
    headline="PASS: 6 of 6 checks passed",
    verdicts=(
        passed("build", "attention", 0.0),
        passed("registers", "flashcore_attention_fp16_d64", 97.6),
        passed("max-diff", "prefill-fp16-b16-h16-s2048-d64", 0.00098),
        passed("max-diff", "prefill-fp16-b4-h16-s8192-d128", 0.00049),
        passed("sol-sm", "prefill-fp16-b4-h16-s8192-d128", 78.25),
        passed("stability", "prefill-fp16-b16-h16-s2048-d64", 0.051, notes=("time: 0.73 %",)),
    ),
    excluded=(Excluded(gate="sol-dram", target="prefill-fp16-b16-h16-s2048-d64", why="its roof is compute"),),
    waivers=(),
    builds=(),
    provenance=Provenance(
        collected_at="2026-11-21T07:55:00Z",
        device=Device(
            name="NVIDIA H200",
            uuid="GPU-0",
            driver="580.159.04",
            compute_capability="9.0",
            multiprocessors=132,
            memory=150_000_000_000,
            l2=60_000_000,
        ),
        tools=(("nvcc", "13.0.88"), ("ncu", "2025.3.1")),
        commit="0123456789abcdef0123456789abcdef01234567",
        dirty=False,
        clock_policy="none",
        version="0.1.0",
    ),
    judged_commit="89abcdef0123456789abcdef0123456789abcdef",
)

RED = replace(
    GREEN,
    outcome=Outcome.FAIL,
    exit_code=10,
    headline="FAIL: 4 of 10 checks block this merge",
    verdicts=(
        *GREEN.verdicts,
        verdict(
            "max-diff", "gqa-bf16-b2-h32-s1023-d128", 0.0020004, Outcome.FAIL, Code.OVER_LIMIT, "0.0020004 is not below 0.002"
        ),
        verdict(
            "racecheck",
            "small-fp16-s113-d64",
            3.0,
            Outcome.FAIL,
            Code.OVER_LIMIT,
            "3 findings in 4 launches",
            findings=(
                Finding(
                    tool="racecheck",
                    message="Race reported between Write access and Read access",
                    kernel="flashcore_attention_fp16_d64",
                    file="kernel/include/flashcore/attention/body.cuh",
                    line=112,
                ),
            ),
        ),
        verdict(
            "finite",
            "prefill-fp16-b16-h16-s2048-d64",
            Missing(code=Code.HANG, message="no end after 60 s"),
            Outcome.FAIL,
            Code.HANG,
            "the kernel did not end within 60 s",
        ),
        verdict(
            "stability",
            "stream-2gib",
            Missing(code=Code.UNSETTLED, message="clock moved 45 MHz"),
            Outcome.INCONCLUSIVE,
            Code.UNSETTLED,
            "the SM clock still moved by 45 MHz after 5 s",
        ),
    ),
)

STALE = Missing(code=Code.STALE_EVIDENCE, message="machine code changed")
INCONCLUSIVE = replace(
    GREEN,
    outcome=Outcome.INCONCLUSIVE,
    exit_code=11,
    headline="INCONCLUSIVE: 30 of 32 checks block this merge because they could not be judged",
    verdicts=(
        passed("build", "attention", 0.0),
        passed("sol-sm", "prefill-fp16-b4-h16-s8192-d128", 78.25, origin=RECORDED),
        *(
            verdict(
                gate,
                f"prefill-fp16-b{batch}-h16-s{32768 // batch}-d64",
                STALE,
                Outcome.INCONCLUSIVE,
                Code.STALE_EVIDENCE,
                "recorded for another machine code",
                origin=NOWHERE,
            )
            for gate in ("max-diff", "finite", "stability")
            for batch in range(1, 11)
        ),
    ),
)

SHADES = replace(
    GREEN,
    headline="PASS: 6 of 9 checks passed, 1 red but advisory, 1 waived, 1 deferred to a machine with the GPU",
    verdicts=(
        *GREEN.verdicts,
        verdict(
            "sol-sm",
            "prefill-fp16-b64-h16-s512-d64",
            51.375,
            Outcome.FAIL,
            Code.UNDER_LIMIT,
            "51.375 % is not at least 70 %",
            severity=Severity.ADVISORY,
            blocks=False,
            origin=RECORDED,
        ),
        verdict(
            "max-diff",
            "prefill-bf16-b16-h16-s2048-d64",
            STALE,
            Outcome.INCONCLUSIVE,
            Code.STALE_EVIDENCE,
            "recorded for another machine code",
            blocks=False,
            deferred=True,
            origin=NOWHERE,
        ),
        verdict(
            "stability",
            "short-fp16-b1-h16-s512-d64",
            2.6,
            Outcome.WAIVED,
            Code.OVER_LIMIT,
            "2.6 % is not below 2 %",
            notes=("waived until 2026-12-31 by kernels@example.org: launch effects, see the tuning log",),
        ),
    ),
)

HOSTILE = replace(
    GREEN,
    suite="hopper <&\"'>",
    outcome=Outcome.FAIL,
    exit_code=10,
    headline="1 check failed: \x1b[31mred\x1b[0m | pipe `tick` <b>bold</b> @everyone",
    verdicts=(
        verdict(
            "finite",
            "weird-\udcff-\x00|`<script>`",
            1234567.0,
            Outcome.FAIL,
            Code.OVER_LIMIT,
            "line one\nline two ]]> \x08\ufffe \U0001f525 [link](javascript:alert(1)) \u202e",
            findings=(Finding(tool="memcheck", message="x" * 5000, file="a|b.cu", line=1),),
            seconds=1e-7,
        ),
    ),
    notes=("a note with \x1b]0;title\x07 and <details>",),
)

ERROR = replace(
    GREEN,
    outcome=Outcome.INCONCLUSIVE,
    exit_code=3,
    headline="gates/hopper.toml: gates.max-dif: unknown key; did you mean max-diff?",
    verdicts=(),
    excluded=(),
    provenance=None,
    notes=("there was no plan, so nothing was judged",),
)

REPORTS = {
    "green": GREEN,
    "red": RED,
    "inconclusive": INCONCLUSIVE,
    "shades": SHADES,
    "hostile": HOSTILE,
    "error": ERROR,
}

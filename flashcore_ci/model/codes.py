"""The closed vocabulary of what can happen to a check; ``docs/reasons.md`` is generated from it."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """What happened. One code, one meaning, one next step (see ``NEXT_STEP``)."""

    WITHIN_LIMIT = "within-limit"
    OVER_LIMIT = "over-limit"
    UNDER_LIMIT = "under-limit"
    NOT_FINITE = "not-finite"

    FASTER = "faster"
    SAME = "same"
    SAME_CODE = "same-code"
    SLOWER = "slower"
    SLOWER_AT_LOWER_CLOCK = "slower-at-lower-clock"
    UNDECIDED = "undecided"
    BELOW_RESOLUTION = "below-resolution"
    DRIFTED = "drifted"
    NO_BASE = "no-base"
    NO_BASELINE = "no-baseline"

    COMPILE_ERROR = "compile-error"
    NOT_BUILT = "not-built"
    HANG = "hang"
    CRASH = "crash"
    RAISED = "raised"
    OUTPUT_CHANGED = "output-changed"
    KERNEL_NOT_SEEN = "kernel-not-seen"
    UNEXPECTED_KERNEL = "unexpected-kernel"

    NO_EVIDENCE = "no-evidence"
    STALE_EVIDENCE = "stale-evidence"
    METRIC_ABSENT = "metric-absent"
    UNIT_MISMATCH = "unit-mismatch"
    INVALID_REPORT = "invalid-report"
    INVALID_RESULT = "invalid-result"
    NO_LAUNCH_CHECKED = "no-launch-checked"
    TOOL_LOST_TRACK = "tool-lost-track"
    TOOL_TOO_OLD = "tool-too-old"
    TOOL_FAILED = "tool-failed"
    CONTROL_FAILED = "control-failed"

    COUNTERS_DENIED = "counters-denied"
    COUNTERS_IN_USE = "counters-in-use"
    DEVICE_UNHEALTHY = "device-unhealthy"
    GPU_BUSY = "gpu-busy"
    THROTTLED = "throttled"
    UNSETTLED = "unsettled"
    TOO_FEW_PROCESSES = "too-few-processes"
    BIMODAL = "bimodal"
    OUT_OF_MEMORY = "out-of-memory"
    INTERRUPTED = "interrupted"


PASSING = frozenset({Code.WITHIN_LIMIT, Code.FASTER, Code.SAME, Code.SAME_CODE})
"""The codes of a PASS: they need no next step."""

FAILING = frozenset({Code.OVER_LIMIT, Code.UNDER_LIMIT, Code.SLOWER, Code.SLOWER_AT_LOWER_CLOCK, Code.DRIFTED})
"""The codes of a number that breaks its limit: FAIL."""

SUBJECT_AT_FAULT = frozenset(
    {
        Code.COMPILE_ERROR,
        Code.HANG,
        Code.CRASH,
        Code.RAISED,
        Code.OUTPUT_CHANGED,
        Code.KERNEL_NOT_SEEN,
        Code.UNEXPECTED_KERNEL,
        Code.NOT_FINITE,
    }
)
"""A reading that is missing for one of these is the kernel's own doing: FAIL. Any other is INCONCLUSIVE."""

NEXT_STEP: dict[Code, str] = {
    Code.OVER_LIMIT: "the measured value is above its limit: mend the kernel, or change the limit in a reviewed change",
    Code.UNDER_LIMIT: "the measured value is below its limit: mend the kernel, or change the limit in a reviewed change",
    Code.NOT_FINITE: "the kernel gave NaN or infinity where a number was due: look at the outputs of this workload",
    Code.SLOWER: "the kernel takes more cycles (memory-bound: more time) than the base: mend it, or waive this pair of commits",
    Code.SLOWER_AT_LOWER_CLOCK: "as many cycles, yet more time: the GPU ran it at a lower clock; look at its power, or waive this pair of commits",
    Code.UNDECIDED: "the rounds do not tell: run it again on a quieter machine, or give the gate a wider margin in a reviewed change",
    Code.BELOW_RESOLUTION: "this machine cannot see so small a change: give the gate the margin named here, or quiet the machine",
    Code.DRIFTED: "slower than the baseline, by many small steps or by one: find them, or propose a new baseline in a reviewed change",
    Code.NO_BASE: "the base cannot run this workload: there is nothing to compare with",
    Code.NO_BASELINE: "`flashcore-ci baseline propose RUN` writes a baseline for this GPU; have it reviewed and commit it",
    Code.COMPILE_ERROR: "mend the compiler error shown here; `flashcore-ci build` repeats it",
    Code.NOT_BUILT: "mend the gate `build` of this subject first",
    Code.HANG: "the kernel did not end in time: look for a barrier that nobody arrives at",
    Code.CRASH: "the process died: run the workload under `compute-sanitizer --tool memcheck`",
    Code.RAISED: "the subject raised an exception: the message above is its last line",
    Code.OUTPUT_CHANGED: "the kernel does not compute the same thing every time: look for a race, or for state kept between launches",
    Code.KERNEL_NOT_SEEN: "the tool never saw the planned kernel run: check the entry names that the subject gives",
    Code.UNEXPECTED_KERNEL: "a kernel ran that the subject does not name: add it to `problem()` or remove it",
    Code.NO_EVIDENCE: "nothing was recorded for this check: run `flashcore-ci gate` on a machine with the GPU",
    Code.STALE_EVIDENCE: "what would run now is not what was measured: run `flashcore-ci gate` on a machine with the GPU",
    Code.METRIC_ABSENT: "the tool did not report this metric: check its version with `flashcore-ci doctor`",
    Code.UNIT_MISMATCH: "the unit of the reading is not the unit of the limit: correct the gate or the collector",
    Code.INVALID_REPORT: "the tool's report cannot be trusted: delete the run folder and collect again",
    Code.INVALID_RESULT: "the worker's result cannot be trusted: delete the run folder and collect again",
    Code.NO_LAUNCH_CHECKED: "fewer launches were checked than planned: read the tool's log in the run folder",
    Code.TOOL_LOST_TRACK: "the tool says that it may have missed errors: read its log in the run folder",
    Code.TOOL_TOO_OLD: "run `flashcore-ci toolchain install`, which brings the version that is needed",
    Code.TOOL_FAILED: "the tool itself failed: read its log in the run folder, then `flashcore-ci doctor`",
    Code.CONTROL_FAILED: "the tool did not report a bug that was planted for it: its silence proves nothing; `flashcore-ci doctor`",
    Code.COUNTERS_DENIED: "allow performance counters: modprobe nvidia NVreg_RestrictProfilingToAdminUsers=0, or run as root",
    Code.COUNTERS_IN_USE: "another program holds the counters: `dcgmi profpause`, then run again",
    Code.DEVICE_UNHEALTHY: "a known-good kernel fails on this GPU: take the machine out of service",
    Code.GPU_BUSY: "other processes use this GPU: end them, or name them in --allow-process",
    Code.THROTTLED: "the GPU held its clocks down all the time: check cooling and power, then run again",
    Code.UNSETTLED: "times or clocks never settled: wait until the GPU is idle, then run again",
    Code.TOO_FEW_PROCESSES: "too many timing processes were lost: their reasons are in the run folder",
    Code.BIMODAL: "the machine has two speeds: find out which before you trust either",
    Code.OUT_OF_MEMORY: "the GPU has too little free memory for this workload",
    Code.INTERRUPTED: "the run was stopped before this check: run it again",
}

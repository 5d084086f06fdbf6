"""The closed list of reason codes. ``docs/reasons.md`` is generated from it."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """The outcome of one check, with one next step (``NEXT_STEP``)."""

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
    FIRST_RUN = "first-run"

    CHECK_REMOVED = "check-removed"
    CHECK_LOOSENED = "check-loosened"
    MADE_ADVISORY = "made-advisory"
    NEWLY_WAIVED = "newly-waived"
    NEWLY_EXCLUDED = "newly-excluded"
    REFERENCE_CHANGED = "reference-changed"
    DEPENDENCY_CHANGED = "dependency-changed"
    SELFTEST_LOOSENED = "selftest-loosened"
    SUBJECT_CHANGED = "subject-changed"
    NEWER_SUITE = "newer-suite"
    BAR_UNKNOWN = "bar-unknown"

    TOOL_CHANGED = "tool-changed"
    SUITE_CHANGED = "suite-changed"
    PROJECT_CHANGED = "project-changed"
    SUBJECT_REWRITTEN = "subject-rewritten"
    CODE_CHANGED = "code-changed"
    UNKNOWN_CHANGE = "unknown-change"
    BASE_UNMEASURED = "base-unmeasured"
    UNTRIAGED_ALERT = "untriaged-alert"
    ALERT_REMOVED = "alert-removed"
    ALERT_CHANGED = "alert-changed"
    ALERT_ENDED = "alert-ended"
    ALERTS_UNREADABLE = "alerts-unreadable"

    COMPILE_ERROR = "compile-error"
    NOT_BUILT = "not-built"
    HANG = "hang"
    CRASH = "crash"
    RAISED = "raised"
    OUTPUT_CHANGED = "output-changed"
    LOST_GPU = "lost-gpu"
    FOREIGN_UNIT = "foreign-unit"
    UNSIGNED_BUNDLE = "unsigned-bundle"
    RANK_DIED = "rank-died"
    RANK_HUNG = "rank-hung"
    RANKS_DISAGREE = "ranks-disagree"
    KERNEL_NOT_SEEN = "kernel-not-seen"
    UNEXPECTED_KERNEL = "unexpected-kernel"
    FOREIGN_KERNEL = "foreign-kernel"
    NO_MACHINE_CODE = "no-machine-code"
    RETUNED = "retuned"

    NO_EVIDENCE = "no-evidence"
    STALE_EVIDENCE = "stale-evidence"
    OTHER_DEVICE = "other-device"
    OTHER_DRIVER = "other-driver"
    OTHER_TOOLS = "other-tools"
    NO_TOOLS = "no-tools"
    FROM_THE_FUTURE = "from-the-future"
    TOO_OLD = "too-old"
    METRIC_ABSENT = "metric-absent"
    UNIT_MISMATCH = "unit-mismatch"
    INVALID_REPORT = "invalid-report"
    INVALID_RESULT = "invalid-result"
    NO_LAUNCH_CHECKED = "no-launch-checked"
    TOOL_LOST_TRACK = "tool-lost-track"
    UNKNOWN_OUTPUT = "unknown-output"
    NO_TOOL_FILE = "no-tool-file"
    NO_TEST_FILES = "no-test-files"
    TOOL_TOO_OLD = "tool-too-old"
    TOOL_FAILED = "tool-failed"
    CONTROL_FAILED = "control-failed"
    NOT_ISOLATED = "not-isolated"
    CLOCKS_DISAGREE = "clocks-disagree"
    INPUTS_ALIKE = "inputs-alike"
    ESTIMATED_WORK = "estimated-work"

    COUNTERS_DENIED = "counters-denied"
    COUNTERS_IN_USE = "counters-in-use"
    DEVICE_UNHEALTHY = "device-unhealthy"
    GPU_BUSY = "gpu-busy"
    TOO_FEW_GPUS = "too-few-gpus"
    THROTTLED = "throttled"
    UNSETTLED = "unsettled"
    TOO_FEW_PROCESSES = "too-few-processes"
    BIMODAL = "bimodal"
    OUT_OF_MEMORY = "out-of-memory"
    INTERRUPTED = "interrupted"


PASSING = frozenset({Code.WITHIN_LIMIT, Code.FASTER, Code.SAME, Code.SAME_CODE})
"""The codes of a PASS. They need no next step."""

LOOSENING = frozenset(
    {
        Code.CHECK_REMOVED,
        Code.CHECK_LOOSENED,
        Code.MADE_ADVISORY,
        Code.NEWLY_WAIVED,
        Code.NEWLY_EXCLUDED,
        Code.REFERENCE_CHANGED,
        Code.DEPENDENCY_CHANGED,
        Code.SELFTEST_LOOSENED,
    }
)
"""The codes of a change that asks less than the base's suite does: FAIL."""

ALERTING = frozenset({Code.UNTRIAGED_ALERT, Code.ALERT_REMOVED, Code.ALERT_CHANGED, Code.ALERT_ENDED})
"""The codes of alerts: FAIL. No waiver covers them: a decision about an alert does."""

FAILING = (
    frozenset({Code.OVER_LIMIT, Code.UNDER_LIMIT, Code.SLOWER, Code.SLOWER_AT_LOWER_CLOCK, Code.RETUNED, Code.DRIFTED})
    | LOOSENING
)
"""The codes of a number that breaks its limit, and of a lower bar: FAIL."""

WAIVABLE = FAILING | {Code.UNDECIDED, Code.BELOW_RESOLUTION, Code.BIMODAL}
"""The codes that a waiver may name. Each comes with a reading."""

SUBJECT_FAILURES = frozenset(
    {
        Code.COMPILE_ERROR,
        Code.HANG,
        Code.CRASH,
        Code.RAISED,
        Code.OUTPUT_CHANGED,
        Code.LOST_GPU,
        Code.RANK_DIED,
        Code.RANK_HUNG,
        Code.RANKS_DISAGREE,
        Code.KERNEL_NOT_SEEN,
        Code.UNEXPECTED_KERNEL,
        Code.FOREIGN_KERNEL,
        Code.NOT_FINITE,
    }
)
"""Codes of a missing reading that the kernel caused: FAIL. Any other missing reading is INCONCLUSIVE."""

NEXT_STEP: dict[Code, str] = {
    Code.OVER_LIMIT: "The value is above its limit. Fix the kernel, or raise the limit in a reviewed change.",
    Code.UNDER_LIMIT: "The value is below its limit. Fix the kernel, or lower the limit in a reviewed change.",
    Code.NOT_FINITE: "The kernel wrote NaN or infinity. Inspect the outputs of this workload.",
    Code.SLOWER: "The kernel takes more cycles than the base (memory-bound: more time). Fix it, or waive this pair of digests.",
    Code.SLOWER_AT_LOWER_CLOCK: "The kernel takes the same cycles but more time, so the GPU ran at a lower clock. Reduce its power, or waive this pair of digests.",
    Code.UNDECIDED: "The rounds do not decide. Run the gate again on a quieter machine, or widen the margin in a reviewed change.",
    Code.BELOW_RESOLUTION: "This machine cannot resolve the margin. Widen it to the one named here in a reviewed change, or use a quieter machine.",
    Code.DRIFTED: "The kernel is slower than its baseline, by one step or by many small ones. Find them, or propose a new baseline for review.",
    Code.NO_BASE: "The base cannot run this workload, so there is no comparison. Let the base run it, or give the new problem a new workload.",
    Code.NO_BASELINE: "This machine has no baseline. Run `flashcore-ci baseline propose RUN` (after an update of the driver: `flashcore-ci baseline renew`), have the file reviewed, and commit it.",
    Code.FIRST_RUN: "No machine of this kind has a baseline yet, so this does not block. Run `flashcore-ci baseline propose RUN`, have the file reviewed, and commit it.",
    Code.CHECK_REMOVED: "The base asks this, and this change does not. Restore it, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.CHECK_LOOSENED: "The base asks more here. Restore it, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.MADE_ADVISORY: "This check blocks in the base. Make it blocking again, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.NEWLY_WAIVED: "The base does not have this waiver. Fix the kernel, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.NEWLY_EXCLUDED: "The base judges this. Include it again, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.REFERENCE_CHANGED: "A noise or baseline file differs from the base's. Restore it, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.DEPENDENCY_CHANGED: "Dependencies differ from the base's. Restore them, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.SELFTEST_LOOSENED: "The base's self-test asks more. Restore the defect, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.SUBJECT_CHANGED: "The kernel could not be judged with the base's subject file. Keep its interface, or have `flashcore-ci bar --accept WHY` reviewed.",
    Code.NEWER_SUITE: "The base's tool cannot read this suite. Merge the tool that reads it first, then the suite.",
    Code.BAR_UNKNOWN: "The suites of base and head could not be compared. Run `flashcore-ci bar` and fix what it names.",
    Code.TOOL_CHANGED: "The tool or its workflow differs from that of the measurement. Run the GPU job on this commit.",
    Code.SUITE_CHANGED: "A file next to the suite differs from that of the measurement. Run the GPU job on this commit.",
    Code.PROJECT_CHANGED: "Dependencies or settings differ from those of the measurement. Run the GPU job on this commit.",
    Code.SUBJECT_REWRITTEN: "A subject differs, or a binding in more than comments. Run the GPU job on this commit.",
    Code.CODE_CHANGED: "Code that a workload runs differs from the measured code. Run the GPU job on this commit.",
    Code.UNKNOWN_CHANGE: "Nothing says that this file cannot change a measurement. Run the GPU job on this commit.",
    Code.BASE_UNMEASURED: "No measurement of the base answers for this commit. Run the GPU job on this commit.",
    Code.UNTRIAGED_ALERT: "This slowdown has no decision. Run `flashcore-ci alerts triage`, have the file reviewed, and commit it.",
    Code.ALERT_REMOVED: "The base has this open alert. Restore its file. Only `flashcore-ci alerts update` ends an alert.",
    Code.ALERT_ENDED: "Only `flashcore-ci alerts update` ends an alert. Give the database that it wrote to `require --db`.",
    Code.ALERT_CHANGED: "The facts of this alert differ from the base's. Restore its file, then run `flashcore-ci alerts triage`.",
    Code.ALERTS_UNREADABLE: "The files of the alerts cannot be read. Fix what is named here, or restore them from git.",
    Code.COMPILE_ERROR: "The subject does not compile. Fix the error shown here. `flashcore-ci build` repeats it.",
    Code.NOT_BUILT: "The subject was not built. Fix its gate `build` first.",
    Code.HANG: "The kernel did not end in time. Look for a barrier where an arrival is missing.",
    Code.CRASH: "The process died. Run the workload under `compute-sanitizer --tool memcheck`.",
    Code.RAISED: "The subject raised an exception. The message above is its last line.",
    Code.OUTPUT_CHANGED: "The kernel does not compute the same result every time. Look for a race, or for state kept between launches.",
    Code.LOST_GPU: "Two GPUs failed while they ran this code. Run its workloads one by one on a machine that you can spare.",
    Code.FOREIGN_UNIT: "A bundle holds what its shard was not to measure, so none of it counts. Run `flashcore-ci collect --shard` again.",
    Code.UNSIGNED_BUNDLE: "The protected workflow did not sign the bundle and its statement. Sign both in its run, or merge without --statements.",
    Code.RANK_DIED: "The process of one GPU died, so all others were ended. Read its log in the run folder.",
    Code.RANK_HUNG: "A GPU of the group did not end in time. Look for a message that no other rank receives.",
    Code.RANKS_DISAGREE: "The GPUs of the group did not take the same steps. Let all ranks send the same messages in the same order.",
    Code.KERNEL_NOT_SEEN: "The tool never saw the planned kernel run. Check the entry function names in the subject.",
    Code.UNEXPECTED_KERNEL: "A kernel ran that the subject does not name. Add it to `problem()`, or remove the launch.",
    Code.FOREIGN_KERNEL: "The workload uses a kernel or a library of another subject, which its digests do not cover. Use the subject's own, or give the workload to that subject.",
    Code.NO_MACHINE_CODE: "The machine code of a launched kernel was not found, so its build gates cannot be judged. Use a framework that keeps its cubins, or drop `machine-code` from `collect`.",
    Code.RETUNED: "The autotuner chose another configuration than for the base, and the kernel is slower. Pin the configuration, then run the gate again.",
    Code.NO_EVIDENCE: "Nothing was recorded for this check. Run `flashcore-ci gate --live` on a machine with the GPU.",
    Code.STALE_EVIDENCE: "The code differs from the code that was measured. Run `flashcore-ci gate --live` on a machine with the GPU.",
    Code.OTHER_DEVICE: "The evidence is of a GPU that the suite does not accept. Measure on one that it names, or name this one in a reviewed change.",
    Code.OTHER_DRIVER: "The suite does not accept the driver. Measure with a driver in its range, or widen the range in a reviewed change.",
    Code.OTHER_TOOLS: "The suite does not accept the tool's version. Install one in its range, or widen the range in a reviewed change.",
    Code.NO_TOOLS: "The evidence does not name its tools. Run `flashcore-ci gate --live` on a machine with the GPU.",
    Code.FROM_THE_FUTURE: "The evidence is newer than now. Correct the clock of the machine that measures, then run the gate again.",
    Code.TOO_OLD: "The evidence is older than the suite allows. Run the GPU job again on this commit.",
    Code.METRIC_ABSENT: "The tool did not report this metric. Check the tool's version with `flashcore-ci doctor`.",
    Code.UNIT_MISMATCH: "The reading and the limit have different units. Correct the gate or the collector.",
    Code.INVALID_REPORT: "The tool's report is damaged. Delete the run folder and collect again.",
    Code.INVALID_RESULT: "The worker's result is damaged or belongs to another job. Delete the run folder and collect again.",
    Code.NO_LAUNCH_CHECKED: "The tool checked fewer launches than planned. Read its log in the run folder.",
    Code.TOOL_LOST_TRACK: "The tool says that it may have missed errors. Read its log in the run folder.",
    Code.UNKNOWN_OUTPUT: "The tool wrote a line that is not known to be harmless. Read it in the log, and fix its cause.",
    Code.NO_TOOL_FILE: "The run lacks the tool's file, so the reading cannot be derived again. Collect again.",
    Code.NO_TEST_FILES: "The tests of the other project are not here. Get the files and packages that the subject's file pins, then run the gate again.",
    Code.TOOL_TOO_OLD: "The tool is too old. Run `flashcore-ci toolchain install`.",
    Code.TOOL_FAILED: "The tool itself failed. Read its log in the run folder, then run `flashcore-ci doctor`.",
    Code.CONTROL_FAILED: "The tool missed the bug planted as a control, so a clean log proves nothing. Run `flashcore-ci doctor`.",
    Code.NOT_ISOLATED: "The suite trusts this subject with nothing, but it was not isolated as the suite demands. Run the gate as root on Linux 5.13 or newer with landlock.",
    Code.CLOCKS_DISAGREE: "The supervisor's clock contradicts the candidate's. Look for work outside of the launches, or for an exchanged clock.",
    Code.INPUTS_ALIKE: "New inputs hardly change the reference, so kept outputs would pass. Let `inputs()` use its seed in every tensor.",
    Code.ESTIMATED_WORK: "A tool estimated FLOP and bytes, so this check's roof is a guess. Correct both in `problem()`, and set `ESTIMATED = False` there.",
    Code.COUNTERS_DENIED: "The driver denies performance counters. Load it with NVreg_RestrictProfilingToAdminUsers=0, or run as root.",
    Code.COUNTERS_IN_USE: "Another program holds the performance counters. Run `dcgmi profpause`, then run the gate again.",
    Code.DEVICE_UNHEALTHY: "A known-good kernel fails on this GPU. Take the machine out of service.",
    Code.TOO_FEW_GPUS: "This machine has too few GPUs of one model. Run `flashcore-ci gate --live` on one that has them.",
    Code.GPU_BUSY: "Other processes use this GPU, or MIG or MPS divides it. End them, or name other processes with `--allow-process`.",
    Code.THROTTLED: "The GPU throttled during most blocks. Check cooling and power, then run the gate again.",
    Code.UNSETTLED: "Cycles or clocks never reached a steady state. Wait until the GPU is idle, then run the gate again.",
    Code.TOO_FEW_PROCESSES: "Too many timing processes were lost. Read the reason of each in the run folder.",
    Code.BIMODAL: "The processes of one side fall into two groups of different speed. Find the cause before you trust either.",
    Code.OUT_OF_MEMORY: "The GPU has too little free memory for this workload. Free some, then run the gate again.",
    Code.INTERRUPTED: "The run was stopped before this check. Run the gate again.",
}
"""What happened, and what to do about it, for every code that is not a PASS."""

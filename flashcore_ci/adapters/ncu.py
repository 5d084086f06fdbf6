"""Nsight Compute: its command line, its errors and its report.

``ncu_report`` opens an empty, cut or altered file without an error, or aborts. So a process of its own copies the data
(``reading_argv``), and ``make_readings`` demands all that is due.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.bounded.values import loads
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.metrics import MAX_SHARE
from flashcore_ci.model.reading import Measured, Missing, Reading

FOLDERS = ("/opt/nvidia/nsight-compute", "/usr/local/NVIDIA-Nsight-Compute")
PEAK = "avg.pct_of_peak_sustained_elapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcuMetric:
    """A reading and its names in ncu, the newest first. ``scale`` turns ``source_unit`` into ``unit``."""

    name: str
    unit: str
    sources: tuple[str, ...]
    source_unit: str
    scale: float = 1.0

    @property
    def share(self) -> bool:
        """Whether it is a share of a peak, averaged over a workload's kernels by time. Others add up."""
        return self.unit == "%"


LAUNCHES = "launches/call"
DURATION = "gpu__time_duration.sum"
NCU_METRICS = (
    NcuMetric(name="sol/sm", unit="%", sources=(f"sm__throughput.{PEAK}",), source_unit="%"),
    NcuMetric(name="sol/dram", unit="%", sources=(f"dram__throughput.{PEAK}", f"gpu__dram_throughput.{PEAK}"), source_unit="%"),
    NcuMetric(
        name="sol/tensor",
        unit="%",
        sources=(f"sm__pipe_tensor_cycles_active.{PEAK}", f"sm__inst_executed_pipe_tensor.{PEAK}"),
        source_unit="%",
    ),
    NcuMetric(name="sol/xu", unit="%", sources=(f"sm__inst_executed_pipe_xu.{PEAK}",), source_unit="%"),
    NcuMetric(name="cycles/sm", unit="cycle", sources=("sm__cycles_elapsed.max",), source_unit="cycle"),
    NcuMetric(name="time/gpu/profiled", unit="ms", sources=(DURATION,), source_unit="ns", scale=1e-6),
)
MAX_LINE = 1000
SECTIONS = ("LaunchStats", "Occupancy")
"""For readers of the report. SpeedOfLight made ten passes of each launch, and no gate reads more of it than ``NCU_METRICS``."""
ERROR_PATTERNS: tuple[tuple[str, Code], ...] = (
    ("ERR_NVGPUCTRPERM", Code.COUNTERS_DENIED),
    ("a driver resource was unavailable", Code.COUNTERS_IN_USE),
    ("resource in use", Code.COUNTERS_IN_USE),
    ("==ERROR==", Code.TOOL_FAILED),
    ("No kernels were profiled", Code.KERNEL_NOT_SEEN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One profiled launch: NVTX range, function, and metrics as (value, unit)."""

    workload: str
    kernel: str
    metrics: dict[str, tuple[float, str]]


def find() -> Path | None:
    """Find the newest ncu: on PATH, else where it installs itself."""
    on_path = shutil.which("ncu")
    if on_path is not None:
        return Path(on_path)
    installed = sorted(ncu for folder in FOLDERS for ncu in Path(folder).glob("*/ncu"))
    return installed[-1] if installed else None


def version_argv(tool: Path) -> tuple[str, ...]:
    """Ask the tool for its version."""
    return (str(tool), "--version")


def parse_version(text: str) -> str:
    """Return the version, e.g. ``2025.3.1.0``, or an empty string."""
    return next((line.split()[1] for line in text.splitlines() if line.startswith("Version ") and len(line.split()) > 1), "")


def argv(tool: Path, *, report: Path, command: Sequence[str | Path]) -> tuple[str, ...]:
    """Profile ``command`` between cudaProfilerStart and Stop, without changed clocks or stored source."""
    names = ",".join(dict.fromkeys(metric.sources[0] for metric in NCU_METRICS))
    sections = [argument for section in SECTIONS for argument in ("--section", section)]
    return (
        str(tool), "--profile-from-start", "off", "--nvtx", "--clock-control", "none", "--cache-control", "all",
        "--target-processes", "all", "--import-source", "no", *sections, "--metrics", names,
        "--force-overwrite", "--export", str(report), *map(str, command),
    )  # fmt: skip


def find_error(text: str) -> Missing | None:
    """Return the error that ncu printed, or None."""
    for words, code in ERROR_PATTERNS:
        at = text.find(words)
        if at >= 0:
            around = text[text.rfind("\n", 0, at) + 1 : at + MAX_LINE].splitlines()
            line = next(line for line in around if words in line)
            return Missing(code=code, message=line.removeprefix("==ERROR==").removeprefix("==WARNING==").strip()[:300])
    return None


def import_reader(tool: Path | None) -> Any:
    """Import ``ncu_report``, else the one of ``tool``. CannotCollectError without one."""
    try:
        return importlib.import_module("ncu_report")
    except ImportError:
        pass
    bundled = [] if tool is None else sorted(tool.resolve().parent.glob("extras/python"))
    installed = sorted(folder for root in FOLDERS for folder in Path(root).glob("*/extras/python"))
    for folder in (*bundled, *reversed(installed)):
        sys.path.append(str(folder))
        try:
            return importlib.import_module("ncu_report")
        except ImportError:
            sys.path.remove(str(folder))
    raise CannotCollectError("no reader for ncu's reports", fix="pip install 'flashcore-ci[gpu]'")


def read_actions(module: Any, report: Path) -> tuple[Action, ...]:
    """Copy all actions of a report, none if it cannot be opened."""
    try:
        context = module.load_report(str(report))
        ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
        return tuple(_action(part.action_by_idx(number)) for part in ranges for number in range(part.num_actions()))
    except Exception:  # noqa: BLE001 - the reader raises anything on a bad file
        return ()


def has_reader() -> bool:
    """Tell whether ``import_reader`` finds one, without importing it."""
    installed = any(any(Path(folder).glob("*/extras/python")) for folder in FOLDERS)
    return importlib.util.find_spec("ncu_report") is not None or installed


def reading_argv(tool: Path | None, report: Path) -> tuple[str, ...]:
    """Read a report in a process of its own."""
    return (sys.executable, "-m", "flashcore_ci.adapters.ncu_reader", str(report), *([] if tool is None else [str(tool)]))


def parse_actions(text: str) -> tuple[Action, ...]:
    """Parse what such a process printed. A failed process has no actions."""
    try:
        return tuple(_decode_action(**record) for record in loads(text.splitlines()[-1]))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return ()


def _decode_action(*, workload: str, kernel: str, metrics: dict[str, list[Any]]) -> Action:
    values = {name: (float(value), str(unit)) for name, (value, unit) in metrics.items()}
    return Action(workload=str(workload), kernel=str(kernel), metrics=values)


def make_readings(found: Sequence[Action], workload: str, expected: Sequence[str]) -> dict[str, Reading] | Missing:
    """Return the readings of one workload, or why it has none. Without ``expected`` kernels, one must run."""
    launches = [action for action in found if action.workload == workload]
    if not found:
        return Missing(code=Code.INVALID_REPORT, message="the report holds no launch: it is empty, cut or altered")
    if any(not action.kernel or not action.metrics for action in found):
        message = "the report holds an action without name or metrics: it was cut or altered"
        return Missing(code=Code.INVALID_REPORT, message=message)
    if not launches:
        return Missing(code=Code.KERNEL_NOT_SEEN, message="the report holds no launch of this workload")
    due, launched = set(expected), {action.kernel for action in launches}
    if due - launched:
        message = f"{min(due - launched)} never ran. These ran: {', '.join(sorted(launched))}"
        return Missing(code=Code.KERNEL_NOT_SEEN, message=message)
    if due and launched - due:
        return Missing(code=Code.UNEXPECTED_KERNEL, message=f"{min(launched - due)} ran, which the subject does not name")
    count = Measured(value=float(len(launches)), unit="count")
    return {metric.name: _combine(metric, launches) for metric in NCU_METRICS} | {LAUNCHES: count}


def _combine(metric: NcuMetric, found: Sequence[Action]) -> Reading:
    values = []
    for action in found:
        source = next((name for name in metric.sources if name in action.metrics), None)
        if source is None:
            return Missing(code=Code.METRIC_ABSENT, message=f"{action.kernel} has no {' or '.join(metric.sources)}")
        value, unit = action.metrics[source]
        if unit != metric.source_unit:
            return Missing(code=Code.UNIT_MISMATCH, message=f"{source} is in {unit or 'no unit'}, not in {metric.source_unit}")
        if not 0 <= value <= (MAX_SHARE if metric.share else sys.float_info.max):
            return Missing(code=Code.INVALID_REPORT, message=f"{source} of {action.kernel} is {value:g} {unit}")
        values.append(value * metric.scale)
    if not metric.share:
        return Measured(value=math.fsum(values), unit=metric.unit)
    times = [action.metrics.get(DURATION, (math.nan, ""))[0] for action in found]
    if not math.fsum(times) > 0:
        return Missing(code=Code.INVALID_REPORT, message=f"{DURATION} is absent or zero")
    mean = math.fsum(value * time for value, time in zip(values, times, strict=True)) / math.fsum(times)
    return Measured(value=mean, unit=metric.unit)


def _action(action: Any) -> Action:
    names = {name for metric in NCU_METRICS for name in metric.sources}
    metrics = {}
    for name in names & set(action.metric_names()):
        metric = action.metric_by_name(name)
        if metric is not None and metric.has_value():
            metrics[name] = (float(metric.as_double()), str(metric.unit()))
    return Action(workload=_innermost_range(action), kernel=action.name() or "", metrics=metrics)


def _innermost_range(action: Any) -> str:
    state = action.nvtx_state()
    stacks = [] if state is None else [tuple(state[domain].push_pop_ranges()) for domain in state.domains()]
    return next((stack[-1] for stack in stacks if stack), "")

"""A good run, which tampering alters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind, Waiver
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.store.codec import encode
from flashcore_ci.store.manifest import MANIFEST, manifest_of
from flashcore_ci.store.run import Run, read_run

REPORTS = "artifacts/profile/"


@dataclass(frozen=True, kw_only=True)
class GoodRun:
    """A good run. Copies are altered in ``scratch``."""

    files: dict[str, bytes]
    run: Run
    scratch: Path
    plan: Plan
    judge_plan: Callable[..., Report]
    """Takes a plan, a run, and perhaps waivers."""

    @cached_property
    def _report(self) -> Report:
        return self.judge(self.run)

    def judge(self, run: Run, waivers: tuple[Waiver, ...] = ()) -> Report:
        """Judge a run by the plan of this one."""
        return self.judge_plan(self.plan, run, waivers)

    def read(self, files: dict[str, bytes]) -> Run:
        """Read a run from these files."""
        folder = self.scratch / f"altered-{len(list(self.scratch.iterdir()))}"
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return read_run(folder)

    def profiler_report(self) -> str:
        """Name a profiler's report."""
        return next(name for name in sorted(self.files) if name.startswith(REPORTS) and name.endswith(".ncu-rep"))

    def green_check(self, gate: str) -> tuple[Kind, str]:
        """Find a green check of this gate. LookupError when there is none."""
        for verdict in self._report.verdicts:
            if verdict.gate == gate and verdict.outcome is Outcome.PASS:
                return verdict.evidence, verdict.target
        raise LookupError(gate)


def seal(files: dict[str, bytes]) -> dict[str, bytes]:
    """Give the files a manifest that fits them."""
    members = {name: data for name, data in files.items() if name != MANIFEST}
    return {**members, MANIFEST: encode(manifest_of(sorted(members.items())))}

"""How the workers of one run reach this machine's GPU, and whether it is well."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.collect import child
from flashcore_ci.collect.child import Ended, Order, Wrap
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Workload

PROBE_SECONDS = 60.0
CLEAN_EXIT = frozenset({0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The GPU and interpreter under one session."""

    session: Session

    def order(
        self,
        kind: str,
        name: str,
        workloads: tuple[Workload, ...],
        *,
        seconds: float,
        options: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        permitted: frozenset[int] = CLEAN_EXIT,
        wrap: Wrap | None = None,
    ) -> Order:
        """A worker's job on this GPU."""
        context = self.session.context
        return Order(
            kind=kind,
            name=name,
            python=context.python,
            root=context.root,
            scratch=context.scratch,
            seconds=seconds,
            subjects=self.session.subjects(workloads),
            workloads=workloads,
            options={**(options or {}), "python": self.session.python(workloads)},
            variables={"CUDA_VISIBLE_DEVICES": self.session.uuid, **(variables or {})},
            permitted=permitted,
            wrap=wrap,
        )

    def probe(self) -> Ended:
        """Run a known-good kernel in a process of its own."""
        return child.run(self.order("probe", "probe", (), seconds=PROBE_SECONDS))

    def healthy(self) -> bool:
        """Whether the known-good kernel gives the known answer."""
        return illness(self.probe()) is None


def illness(ended: Ended) -> Missing | None:
    """What the probe found wrong. CannotCollectError when the worker never came as far as the GPU: then it is not ill."""
    if ended.fault is None:
        return child.missing_of(ended.outcomes.get("probe", {}))
    if ended.fault.code is Code.TOOL_FAILED:
        raise CannotCollectError(
            f"the worker cannot start: {ended.fault.message}", fix="name an interpreter that has torch in FLASHCORE_CI_PYTHON"
        )
    return ended.fault if ended.fault.code is Code.INTERRUPTED else _ill(ended.fault)


def _ill(fault: Missing) -> Missing:
    return Missing(code=Code.DEVICE_UNHEALTHY, message=f"a known-good kernel failed: {fault.message}")


def shared(path: Path) -> Path:
    """The path, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path

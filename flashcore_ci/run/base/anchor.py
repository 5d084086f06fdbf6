"""The pinned anchor build, as a third side of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashcore_ci.build.toolchain import SYSTEM, version_with
from flashcore_ci.collect.comparison import Base
from flashcore_ci.model.anchor import Pin, current
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import Identity
from flashcore_ci.model.suite import Suite
from flashcore_ci.plan.planner import drop_comparisons
from flashcore_ci.run.base.environment import Tools, tools_of
from flashcore_ci.run.request import Request
from flashcore_ci.suite.anchors import file_of, read_anchors


def required_pin(request: Request, suite: str) -> Pin:
    """Return the newest anchor of the suite. UsageError if there is none."""
    pin = current(read_anchors(request.root / request.suite), suite)
    if pin is None:
        message = f"{file_of(request.suite)} pins no anchor of the suite {suite}"
        raise UsageError(message, fix="flashcore-ci history anchor pin COMMIT --reason WHY --owner NAME")
    return pin


def of_anchor(request: Request, pin: Pin) -> Request:
    """Return the request that builds and runs the anchor by the tools it was pinned with."""
    toolchain = request.toolchain if request.toolchain == SYSTEM else version_with((pin.compiler,))
    return replace(request, base_build=None, base_python=request.anchor_python, base_toolchain=toolchain)


def checked(base: Base, pin: Pin, there: Request, scratch: Path) -> Base:
    """Return what the anchor can run: all that was built as it is pinned. The rest is not timed with it."""
    used = tools_of(there.of_side(python=there.base_python, toolchain=None), scratch)
    reasons = {name: _why_refused(pin, name, identity, used) for name, identity in base.identities.items()}
    cannot = base.cannot | {name: why for name, why in reasons.items() if why}
    identities = {name: identity for name, identity in base.identities.items() if name not in cannot}
    return replace(base, identities=identities, cannot=cannot, plan=drop_comparisons(base.plan, cannot))


def _why_refused(pin: Pin, workload: str, identity: Identity, tools: Tools) -> str:
    """Return why this build is not the pinned anchor, or ""."""
    pinned = pin.codes.get(workload)
    if pinned is None:
        return "the anchor does not pin it"
    if changed := pinned.difference(identity):
        return f"the anchor's {changed} is not the pinned one"
    here = dict(tools)
    for name, version in pin.tools:
        if here.get(name, version) != version:
            return f"the anchor is pinned with {name} {version}, and {here[name]} is here"
    return ""


def summary(anchor: Base, suite: Suite) -> str:
    """Say in one line what the anchor does not run, and the first reason."""
    missing = {name: anchor.cannot[name] for name in (workload.id for workload in suite.workloads) if name in anchor.cannot}
    first = next(iter(missing.items()), ("", ""))
    return f"{len(missing)} workloads are not timed with the anchor, as {first[0]}: {first[1]}" if missing else ""

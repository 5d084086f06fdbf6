"""Run test cases of another project, and count by feature which pass, are wrong and are refused."""

from __future__ import annotations

import collections
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.model.coverage import describe_foreign
from flashcore_ci.worker import kernels_seen
from flashcore_ci.worker.guard import NO_MEMORY, context_error
from flashcore_ci.worker.job import Work, missing
from flashcore_ci.worker.subject_file import last_line

RESULTS = ("passed", "wrong", "refused")
MAX_SHOWN = 20  # cases of each result
ONE_IN = 8
"""One in so many cases, at random, is profiled."""


def measure(subject: Any, work: Work, entries: Collection[str], foreign: Mapping[str, str]) -> dict[str, Any]:
    """Run all cases of a workload. A case that ends the CUDA context ends the workload."""
    try:
        cases = subject.cases(work.params, work.seed)
    except FileNotFoundError as error:
        return missing(Code.NO_TEST_FILES, last_line(error))
    if not cases or len({name for name, _, _ in cases}) != len(cases):
        raise ValueError(f"cases() names {len(cases)} cases, and each must have a name of its own")
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    shown: dict[str, list[str]] = {result: [] for result in RESULTS}
    for name, features, case in cases:
        seen: set[str] | None = None
        if counts["", "passed"] and secrets.randbelow(ONE_IN):
            result, why = run_case(subject, case)
        else:
            result, why, seen = _run_profiled(subject, case)
        if result == "passed" and seen is not None and (other := _find_other_code(subject, seen, set(entries), foreign)):
            return other
        counts.update((feature, result) for feature in dict.fromkeys(("", *map(str, features))))
        if result != "passed" and len(shown[result]) < MAX_SHOWN:
            shown[result].append(f"{name}: {why}" if why else name)
        if result == "wrong" and (broken := context_error()):
            return missing(Code.CRASH, f"{name}: {broken}")
    return {
        "readings": {f"cases/{result}": counts["", result] for result in RESULTS},
        "notes": [*_describe(counts)],
        "cases": [f"{result}: {text}" for result in ("wrong", "refused") for text in shown[result]],
    }


def run_case(subject: Any, case: Any) -> tuple[str, str]:
    """Return passed, wrong or refused, and why. Too little memory raises."""
    import torch

    try:
        subject.run_case(case)
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        raise
    except NotImplementedError as error:
        return "refused", last_line(error)
    except Exception as error:
        text = last_line(error)
        if any(phrase in text for phrase in NO_MEMORY):
            raise
        return "wrong", text
    return "passed", ""


def _run_profiled(subject: Any, case: Any) -> tuple[str, str, set[str]]:
    """Run a case. Return also the kernels that ran."""
    with kernels_seen.watching() as names:
        result, why = run_case(subject, case)
    return result, why, names()


def _find_other_code(subject: Any, seen: set[str], entries: set[str], foreign: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the outcome if a case that passes proves nothing: our kernels must run in it, and never in that of a peer."""
    if ran := describe_foreign(seen, foreign):
        return missing(Code.FOREIGN_KERNEL, ran)
    if getattr(subject, "is_peer", bool)():
        ours = sorted(seen & entries)
        return missing(Code.UNEXPECTED_KERNEL, f"{ours[0]} ran, but this is a peer") if ours else None
    if not entries or seen & entries:
        return None
    return missing(Code.KERNEL_NOT_SEEN, f"none of {len(entries)} entry functions ran in a case that passed")


def _describe(counts: collections.Counter[tuple[str, str]]) -> list[str]:
    """Write the counts by feature, one line for each result."""
    lines = []
    for result in RESULTS:
        by_feature = {feature: number for (feature, kind), number in counts.items() if kind == result and feature}
        if by_feature:
            lines.append(f"{result}: " + ", ".join(f"{feature} {number}" for feature, number in sorted(by_feature.items())))
    return lines

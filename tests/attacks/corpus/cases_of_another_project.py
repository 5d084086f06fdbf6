"""Test cases of another project that the kernels under test did not pass, or did not run at all."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any
from unittest import mock

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.collect import correctness
from flashcore_ci.model.reading import Measured
from flashcore_ci.worker import cases
from flashcore_ci.worker.job import Work

PLANNED = 4
OURS, THEIRS = "flashcore_attention_fwd_d64_fp16_full", "flashcore_decode_d64_fp16"
Run = Callable[[], None]


class Profile:
    """A profiler that saw these kernels."""

    def __init__(self, seen: Sequence[str]) -> None:
        self.seen = seen

    def __enter__(self) -> Profile:  # noqa: PYI034 - no subclass
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    @property
    def function_events(self) -> list[Any]:
        return [SimpleNamespace(name=name, device_type="cuda") for name in self.seen]


def is_green(
    runs: Sequence[tuple[str, Run]], seen: Sequence[str] = (OURS,), later: Sequence[str] | None = None, feature: str = "all"
) -> bool:
    """Judge cases as gates/upstream.toml does: none is wrong, and all that are planned pass.

    The profiler sees ``seen`` in its first case and ``later`` in all others. Each case is drawn.
    """
    profiles = iter([Profile(seen)])
    torch: Any = SimpleNamespace(
        cuda=SimpleNamespace(synchronize=lambda: None, OutOfMemoryError=MemoryError),
        autograd=SimpleNamespace(
            DeviceType=SimpleNamespace(CUDA="cuda"),
            profiler=SimpleNamespace(profile=lambda **_: next(profiles, Profile(seen if later is None else later))),
        ),
    )
    subject = SimpleNamespace(cases=lambda *_: [(name, [feature], run) for name, run in runs], run_case=lambda run: run())
    with mock.patch.dict(sys.modules, {"torch": torch}), mock.patch.object(cases.secrets, "randbelow", return_value=0):
        try:
            outcome = cases.measure(subject, Work(id="w", subject="s", params={}, seed=18), (OURS,), {THEIRS: "decode"})
        except BaseException:  # noqa: BLE001 - it ends the worker or the workload: red
            return False
    found = dict(correctness.readings(outcome.get("readings", {})))
    numbers = {name: reading.value for name, reading in found.items() if isinstance(reading, Measured)}
    return "missing" not in outcome and numbers.get("cases/wrong") == 0 and numbers.get("cases/passed", 0) >= PLANNED


def fail(error: BaseException) -> Run:
    def run() -> None:
        raise error

    return run


def passes() -> None:
    pass


def attack(name: str, *runs: Run, names: str = "abcd", **how: Any) -> Attack:
    given = list(zip(names, (*runs, *[passes] * PLANNED), strict=False))
    honest = list(zip("abcd", [passes] * PLANNED, strict=True))  # if these are red, that the others are red proves nothing
    return Attack(name=name, attempt=lambda _folder: is_green(given, **how) or not is_green(honest))


ERRORS: tuple[BaseException, ...] = (
    AssertionError("off by one"), NotImplementedError("qv: only None"), ValueError("q: too long"), RuntimeError("no kernel"),
    MemoryError("none left"), KeyError("d"), SystemExit(0), KeyboardInterrupt(), pytest.skip.Exception("left out"), StopIteration(),
)  # fmt: skip


def member(draw: random.Random) -> Attack:
    """One case of several ends in some way."""
    error = draw.choice(ERRORS)
    runs = [passes] * PLANNED
    runs[draw.randrange(PLANNED)] = fail(error)
    return attack(f"{type(error).__name__} in one case", *runs)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count every case that ends."""

    def measure(subject: Any, work: Work, *_kernels: Any) -> dict[str, Any]:
        passed = 0
        for _, _, case in subject.cases(work.params, work.seed):
            try:
                subject.run_case(case)
            except BaseException:  # noqa: BLE001 - the mutant
                passed += 1
            else:
                passed += 1
        return {"readings": {"cases/passed": passed, "cases/wrong": 0, "cases/refused": 0}}

    monkeypatch.setattr(cases, "measure", measure)


CLASS = AttackClass(
    name="cases of another project",
    attacks=(
        *(attack(f"ends with {type(error).__name__}", fail(error)) for error in ERRORS),
        attack("one case is listed often", names="aaaa"),
        attack("two cases have one name", names="abca"),
        attack("PyTorch's kernel serves them", seen=("pytorch_flash::flash_fwd_kernel",)),
        attack("no kernel runs", seen=()),
        attack("a kernel of another subject runs, too", seen=(OURS, THEIRS)),
        attack("a kernel with another name", seen=(f"{OURS}_fallback",)),
        attack("PyTorch's kernel serves all but the first", later=("pytorch_flash::flash_fwd_kernel",)),
        attack("a feature without a name counts twice", fail(NotImplementedError("q: refused")), feature=""),
    ),
    member=member,
    mutant=mutant,
)

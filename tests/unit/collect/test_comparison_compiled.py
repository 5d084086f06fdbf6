"""Two sides whose kernels a framework compiles when they run."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import factories
import pytest
from factories import make_workload

from flashcore_ci.collect import comparison, machine_code
from flashcore_ci.collect.comparison import InterimLooks
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.evidence import Identity, JitModule, Observation
from flashcore_ci.model.identity import NO_MACHINE_CODE, was_same_code
from flashcore_ci.model.jit import BASE, LIBRARY, retuned
from flashcore_ci.model.suite import Kind

WORKLOAD = make_workload("softmax", collect=(Kind.MACHINE_CODE, Kind.COMPARISON))
LOOKS = InterimLooks(rounds=(2, 3), is_final=lambda *_: False)
IDENTITY = Identity(machine_code=NO_MACHINE_CODE, launcher="", binding="b", subject="s", workload="w", collector="c")
MODULE = JitModule(framework="triton", name="softmax", digest="cubin", sources="s", launches=(("softmax", "8,1,1/128,1,1"),))
VERSIONS = (("file:subject.py", "digest"), ("triton", "3.6.0"))


class Session:
    """One side, without a GPU."""

    scratch, python = Path("/scratch"), Path("python")

    def __init__(self, modules: Any, workload: Any = WORKLOAD, **changes: Any) -> None:
        self.modules, self.workload, self.changes = modules, workload, changes

    def progress(self, _: str) -> None: ...

    def workloads(self, _: Kind) -> Any:
        return (self.workload,)

    def identity(self, *_: Any) -> Identity:
        return replace(IDENTITY, **{name: value for name, value in self.changes.items() if name != "dependencies"})

    def build(self, subject: str) -> Any:
        return factories.make_build(subject, entries=(), dependencies=self.changes.get("dependencies", VERSIONS))

    def observation(self, kind: Kind, workload: Any, **learned: Any) -> Observation:
        return Observation(kind=kind, target=workload.id, identity=self.identity(), **learned)


class Rounds:
    """Processes that choose a block per side."""

    def __init__(self, choices: Any) -> None:
        self.choices = choices

    def __call__(self, _: Any) -> Any:
        return self

    def start(self, _: Any) -> None: ...
    def close(self) -> None: ...

    def finish(self, run: Any) -> Any:
        _, number, side = run.name.split("-")
        chosen = {"softmax": {"BLOCK": self.choices[side][int(number)]}} if self.choices else {}
        values = {"ms": 1.0, "megacycles": 1.8, "mhz": 1800.0, "kept": 13, "dropped": 0, "batched": False, "choices": chosen}
        return {WORKLOAD.id: WorkloadResult(values=values, missing=None, completed=None, result_file=Path("/nothing"))}


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the observation of a comparison."""

    def run(base: Session, head: Session, choices: Any = None) -> Observation:
        monkeypatch.setattr(comparison, "ProcessRuns", Rounds(choices))
        monkeypatch.setattr(comparison, "keep_results", lambda *_: [])
        monkeypatch.setattr(machine_code, "modules_of", lambda session, _: session.modules)
        (seen,) = comparison.collect(head, base, LOOKS, provenance=None)  # type: ignore[arg-type]
        return seen

    return run


def test_equal_cubins_launches_sources_and_versions_are_not_timed(compare: Any) -> None:
    seen = compare(Session((MODULE,)), Session((MODULE,)))
    assert was_same_code(seen)
    assert seen.jit == (MODULE,)


OTHERS = {
    "a loop in the kernel": {"digest": "other"},
    "a loop around the launch": {"launches": MODULE.launches * 50},
    "another grid": {"launches": (("softmax", "4,1,1/128,1,1"),)},
    "another block": {"launches": (("softmax", "8,1,1/64,1,1"),)},
    "other sources": {"sources": "other"},
    "another kernel": {"name": "softmax_2"},
    "another choice": {"configuration": (("BLOCK", "64"),)},
    "no cubin": {"digest": "", "framework": LIBRARY},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("both", [False, True])
def test_anything_else_is_timed(compare: Any, changes: dict[str, Any], both: bool) -> None:
    other = replace(MODULE, **changes)
    seen = compare(Session((other,) if both and not other.digest else (MODULE,)), Session((other,)))
    assert not was_same_code(seen)
    assert len(dict(seen.samples)["head/clock/sm"].values) == LOOKS.rounds[-1]
    assert {module.name.startswith(BASE) for module in seen.jit} == {True, False}


@pytest.mark.parametrize(
    "changes", [{"subject": "other"}, {"binding": "other"}, {"dependencies": ()}, {"dependencies": (("triton", "unknown"),)}]
)
def test_equal_cubins_of_other_sources_or_unknown_versions_are_timed(compare: Any, changes: dict[str, Any]) -> None:
    sides = (Session((MODULE,), **changes), Session((MODULE,)))
    for base, head in itertools.permutations(sides):
        assert not was_same_code(compare(base, head))


@pytest.mark.parametrize("modules", [(), (replace(MODULE, launches=()),)])
def test_nothing_seen_is_timed(compare: Any, modules: Any) -> None:
    assert not was_same_code(compare(Session(modules), Session(modules)))


def test_a_workload_that_asks_for_no_machine_code_is_timed(compare: Any) -> None:
    workload = make_workload("softmax", collect=(Kind.COMPARISON,))
    assert not was_same_code(compare(Session((MODULE,), workload), Session((MODULE,), workload)))


def test_the_choice_of_most_rounds_is_reported(compare: Any) -> None:
    choices = {"base": ["128", "128", "64"], "head": ["64", "32", "64"]}
    seen = compare(Session(()), Session(()), choices)
    assert retuned(seen.jit) == ("retuned: softmax runs with BLOCK=64, and the base's with BLOCK=128",)

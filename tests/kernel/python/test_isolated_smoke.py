"""The candidates of the isolated smoke suite make the calls of the trusted subjects, on every workload."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flashcore_ci.suite.loader import load
from flashcore_ci.worker.layout import Scalar

ROOT = Path(__file__).parents[3]
SMALL = {"b": 10, "sq": 320, "sk": 4000, "n": 4099}
"""The largest parameters here. No choice of a call depends on them."""
SUITE = load(ROOT / "gates/smoke.toml", root=ROOT)
SUBJECTS = {subject.name: subject.file for subject in SUITE.subjects}


def import_file(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"smoke_{file.replace('/', '_')[:-3]}", ROOT / file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub(calls: list[tuple[str, dict[str, Any]]]) -> ModuleType:
    """Return a ``flashcore`` with the real signatures, whose functions are only noted."""
    import flashcore

    module, names = ModuleType("flashcore"), ("attention", "attention_varlen", "decode", "decode_varlen", "stream_axpy")
    for name in (*names, "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
        vars(module)[name] = note(name, inspect.signature(getattr(flashcore, name)), calls)
    return module


def note(name: str, signature: inspect.Signature, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    import torch

    def function(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        calls.append((name, dict(bound.arguments)))
        return torch.full((), 1.0), torch.full((), 2.0)

    return function


def on_cpu(monkeypatch: pytest.MonkeyPatch, subject: ModuleType) -> None:
    """Let a subject draw on the CPU."""
    import torch

    generator, randn = torch.Generator, torch.randn
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": generator())
    monkeypatch.setattr(torch, "randn", lambda *sizes, **options: randn(*sizes, **{**options, "device": "cpu"}))
    for module in (subject, *(value for value in vars(subject).values() if isinstance(value, ModuleType))):
        if hasattr(module, "DEVICE"):
            monkeypatch.setattr(module, "DEVICE", "cpu")


def is_same(first: Any, second: Any) -> bool:
    import torch

    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return (
            first.shape == second.shape
            and first.dtype == second.dtype
            and torch.equal(first.nan_to_num(77), second.nan_to_num(77))
        )
    return type(first) is type(second) and bool(first == second)


@pytest.mark.parametrize("workload", SUITE.workloads, ids=lambda workload: workload.id)
def test_a_candidate_launches_as_its_subject(workload: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "kernel"))
    trusted = import_file(SUBJECTS[workload.subject])
    candidate = import_file(f"tests/attacks/isolated/smoke/{workload.subject}.py")
    on_cpu(monkeypatch, trusted)
    params = {name: min(value, SMALL.get(name, value)) if name in SMALL else value for name, value in workload.params}
    inputs = trusted.inputs(params, 3)
    assert all(isinstance(value, Scalar | torch.Tensor) for value in inputs.values())  # what another process can be given
    calls: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setitem(sys.modules, "flashcore", stub(calls))
    written = []
    for side in (trusted, candidate):
        outputs = {name: torch.zeros_like(tensor) for name, tensor in trusted.outputs(inputs).items()}
        side.run(inputs, outputs)
        written.append(outputs)
    (name, expected), (called, given) = calls
    assert called == name
    names = [key for key in expected if not is_same(expected[key], given[key])]
    assert names == [], f"{workload.id}: {name} gets other arguments"
    assert all(is_same(written[0][key], written[1][key]) for key in written[0])

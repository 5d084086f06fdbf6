"""Text that says two things: the reader that decides and the reader that reviews see different values."""

from __future__ import annotations

import contextlib
import importlib
import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from factories import make_problem

from flashcore_ci.collect import child
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.model.subject import Problem
from flashcore_ci.run import required_check
from flashcore_ci.store import codec

BINDING = (
    '"schema": "result-v1", "kind": "correctness", "nonce": "n", "job": "j", "environment": {}, "finished": true, "started": null'
)
HOOKS = (("model.strict_json", "unique_keys"), ("store.codec", "_refuse_duplicates"), ("bounded.values", "_refuse_duplicates"))
"""Where a reader refuses them."""
GOOD_JOBS = '"ci": {"result": "success"}'
RECORD = codec.encode(make_problem()).decode()


def _needs(name: str, text: str) -> Attack:
    def attempt(_: Path) -> bool:
        try:
            results, demanded = required_check.demanded_results(text, "ci gpu")
        except FlashcoreError:
            return False
        return not required_check.unmet_jobs(results, demanded)

    return Attack(name=f"needs: {name}", attempt=attempt)


def _result(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / "result.json").write_text(text)
        found = child.read_result(folder / "result.json", kind="correctness", nonce="n", job="j", began=0.0)
        return isinstance(found, dict)

    return Attack(name=f"result of a worker: {name}", attempt=attempt)


def _record(name: str, old: str, new: str) -> Attack:
    def attempt(_: Path) -> bool:
        try:
            codec.decode(Problem, RECORD.replace(old, new).encode(), where="record")
        except FlashcoreError:
            return False
        return True

    return Attack(name=f"record: {name}", attempt=attempt)


def member(numbers: random.Random) -> Attack:
    """Put a red value before a green one of the same key, which is perhaps escaped."""
    key = "".join(f"\\u{ord(c):04x}" if numbers.random() < 0.3 else c for c in "gpu")
    red = numbers.choice(("failure", "cancelled", "skipped", ""))
    blanks = " " * numbers.randrange(4)
    text = f'{{{GOOD_JOBS}, "gpu":{blanks} {{"result": "{red}"}},{blanks} "{key}": {{"result": "success"}}}}'
    outcome = f'{{{BINDING}, "outcomes": {{"a": {{"bad": {numbers.randrange(9)}}}, "a": {{}}}}}}'
    return numbers.choice((_needs(text, text), _result(outcome, outcome)))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the last of two keys count, as json does."""
    for module, name in HOOKS:
        with contextlib.suppress(ImportError, AttributeError):
            monkeypatch.setattr(importlib.import_module(f"flashcore_ci.{module}"), name, dict)


CLASS = AttackClass(
    name="duplicate keys",
    attacks=(
        _needs("a failed job twice", f'{{{GOOD_JOBS}, "gpu": {{"result": "failure"}}, "gpu": {{"result": "success"}}}}'),
        _needs("two results of one job", f'{{{GOOD_JOBS}, "gpu": {{"result": "failure", "result": "success"}}}}'),
        _needs("a key that is escaped", f'{{{GOOD_JOBS}, "gpu": {{"result": "skipped"}}, "\\u0067pu": {{"result": "success"}}}}'),
        _needs("an escaped result", f'{{{GOOD_JOBS}, "gpu": {{"result": "skipped", "r\\u0065sult": "success"}}}}'),
        _needs("an object before a job", f'{{"gpu": null, {GOOD_JOBS}, "gpu": {{"result": "success"}}}}'),
        _needs("outputs with a second result", f'{{{GOOD_JOBS}, "gpu": {{"outputs": {{"a": 1, "a": 2}}, "result": "success"}}}}'),
        _result("outcomes twice", f'{{{BINDING}, "outcomes": {{"a": {{"missing": 1}}}}, "outcomes": {{}}}}'),
        _result("one workload twice", f'{{{BINDING}, "outcomes": {{"a": {{"max": 9}}, "a": {{"max": 0}}}}}}'),
        _result("one number twice", f'{{{BINDING}, "outcomes": {{"a": {{"max": 9, "max": 0}}}}}}'),
        _result("another nonce first", f'{{"nonce": "old", {BINDING}, "outcomes": {{}}}}'),
        _result("unfinished first", f'{{"finished": false, {BINDING}, "outcomes": {{}}}}'),
        _result("in flight first", f'{{"started": "a", {BINDING}, "outcomes": {{}}}}'),
        _record("FLOP twice", '"flops":', '"flops": 1.0, "flops":'),
        _record("the workload twice", '"workload":', '"workload": "small", "workload":'),
        _record("an escaped key", '"flops":', '"fl\\u006fps": 1.0, "flops":'),
    ),
    member=member,
    mutant=mutant,
)

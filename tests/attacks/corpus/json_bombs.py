"""JSON that is small as text and large, deep or ambiguous as a value."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import ncu
from flashcore_ci.bounded import values
from flashcore_ci.collect import child
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.reading import Missing
from flashcore_ci.run.durations import Durations
from flashcore_ci.run.required_check import job_results
from flashcore_ci.store.codec import decode
from flashcore_ci.store.manifest import Manifest

DEEP, WIDE, LONG = values.MAX_DEPTH + 5, values.MAX_ITEMS + 1, values.MAX_TEXT + 1
BOMBS: dict[str, str] = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep tables": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep lists and tables": '[{"a":' * DEEP + "1" + "}]" * DEEP,
    "many empty lists": "[" + "[]," * values.MAX_CONTAINERS + "[]]",
    "many empty tables": "[" + "{}," * values.MAX_CONTAINERS + "{}]",
    "a long list of numbers": "[" + "1," * (WIDE - 1) + "1]",
    "a long list of empty texts": "[" + '"",' * (WIDE - 1) + '""]',
    "a long table": "{" + ",".join(f'"{i}":1' for i in range(WIDE)) + "}",
    "a long text": json.dumps("x" * LONG),
    "a long text of escapes": '"' + "\\u0000" * LONG + '"',
    "a long key": json.dumps({"k" * LONG: 1}),
    "an integer of 65 bits": str(1 << 65),
    "a negative integer of 70 bits": str(-(1 << 70)),
    "a key given twice": '{"a": 1, "a": 2}',
    "a deep key given twice": '[{"b": {"a": 1, "\\u0061": 2}}]',
}


def loaded(bomb: str) -> Callable[[Path], bool]:
    """True if the text is accepted, or raises what no caller expects."""

    def fooled(folder: Path) -> bool:
        for text in (bomb, bomb.encode()):
            try:
                values.loads(text)
            except ValueError:
                continue
            return True
        return False

    return fooled


def result_with(outcomes: str) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        file = folder / "result.json"
        file.write_text('{"schema":"result-v1","kind":"k","nonce":"n","job":"j","environment":{},"finished":true,"started":null,'
                        f'"outcomes":{{"w":{{"notes":{outcomes}}}}}}}')  # fmt: skip
        return not isinstance(child.read_result(file, kind="k", nonce="n", job="j", began=0.0), Missing)

    return fooled


def needs_with(text: str) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        try:
            job_results(text)
        except UsageError:
            return False
        return True

    return fooled


def durations_with(text: str) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        (folder / "durations.json").write_text(f'{{"k": {text}}}')
        return Durations(file=folder / "durations.json", key="k").load() != {}

    return fooled


def manifest_with(path: str, size: str) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        text = f'{{"files": [{{"path": {path}, "size": {size}, "sha256": "0"}}], "schema": "run-v1"}}'
        try:
            decode(Manifest, text.encode(), where="manifest.json")
        except EvidenceError:
            return False
        return True

    return fooled


def actions_with(text: str) -> Callable[[Path], bool]:
    return lambda folder: ncu.parse_actions(text) != ()


WRITTEN = (
    *(Attack(name=name, attempt=loaded(bomb)) for name, bomb in BOMBS.items()),
    *(Attack(name=f"{name} in a worker's result", attempt=result_with(BOMBS[name])) for name in ("deep lists", "a long list of numbers")),
    Attack(name="an outcome given twice", attempt=result_with('[],"notes":[]')),
    Attack(name="a job given twice", attempt=needs_with('{"a": {"result": "failure"}, "a": {"result": "success"}}')),
    Attack(name="a result given twice", attempt=needs_with('{"a": {"result": "failure", "result": "success"}}')),
    Attack(name="a job with a long name", attempt=needs_with(json.dumps({"n" * LONG: {"result": "success"}}))),
    Attack(name="a deep job", attempt=needs_with('{"a": {"result": "success", "outputs": ' + "[" * DEEP + "]" * DEEP + "}}")),
    Attack(
        name="seconds of 65 bits",
        attempt=durations_with(f'{{"s": {1 << 65}}}'),
        mutated=False,
        proof="no command takes a million seconds",
    ),
    Attack(name="stages given twice", attempt=durations_with('{"s": 1, "s": 2}')),
    Attack(name="a file of a long name", attempt=manifest_with(json.dumps("a" * LONG), "1")),
    Attack(name="a file of 2^65 bytes", attempt=manifest_with('"artifacts/a"', str(1 << 65))),
    Attack(name="a profiled kernel of a long name", attempt=actions_with(json.dumps([{"workload": "w", "kernel": "k" * LONG, "metrics": {}}]))),
)  # fmt: skip


def member(draw: random.Random) -> Attack:
    name = draw.choice([name for name in BOMBS if "many" not in name and "long list" not in name and name != "a long table"])
    opening, closing = draw.choice([("[", "]"), ('{"k": ', "}"), ('[1, {"a": [', "]}]"), ("  [", "  ]")])
    times = draw.randrange(1, 5)
    return Attack(name=f"{name} inside {times} {opening}", attempt=loaded(opening * times + BOMBS[name] + closing * times))


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(values, "refuse_many", lambda *_, **__: None)
    patch.setattr(values, "refuse_large", lambda *_, **__: None)
    patch.setattr(values, "_refuse_duplicates", dict)


CLASS = AttackClass(name="JSON bombs", attacks=WRITTEN, member=member, mutant=mutant)

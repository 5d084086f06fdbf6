"""Results of a worker that nobody expects: the gate must give a verdict, never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.bounded import values
from flashcore_ci.collect import child, correctness
from flashcore_ci.collect.process_runs import _is_finite
from flashcore_ci.model.reading import Missing

GOOD = {"schema": "result-v1", "kind": "k", "nonce": "n", "job": "j", "environment": {}, "started": None, "finished": True}
HUGE = 10**330
OUTCOMES: dict[str, Any] = {
    "seconds that are no float": {"seconds": HUGE},
    "kept blocks that are no float": {"kept": HUGE},
    "dropped blocks that are no float": {"dropped": -HUGE},
    "milliseconds that are no float": {"ms": HUGE},
    "cycles that are no float": {"megacycles": HUGE},
    "clocks of 80 bits": {"mhz": 1 << 80},
    "a long note": {"notes": ["n" * 5000]},
    "a long message": {"missing": {"code": "crash", "message": "m" * 5000}},
    "deep notes": {"notes": json.loads("[" * 60 + "]" * 60)},
    "deep readings": {"readings": {"diff/max": json.loads("[" * 50 + "]" * 50)}},
    "a reading that is no float": {"readings": {"diff/max": HUGE}},
    "a long name of a reading": {"readings": {"r" * 5000: 1.0}},
    "a long mask": {"reasons": {"0x" + "f" * 5000: 1}},
    "a block that is no float": {"blocks": [[HUGE, 0, 0]]},
    "a long problem": {"problems": ["p" * 5000]},
}


def read(outcome: Any) -> Callable[[Path], bool]:
    """True if the result is taken, or ends the gate."""

    def fooled(folder: Path) -> bool:
        file = folder / "result.json"
        file.write_text(json.dumps({**GOOD, "outcomes": {"w": outcome}}))
        try:
            content = child.read_result(file, kind="k", nonce="n", job="j", began=0.0)
            if isinstance(content, Missing):
                return len(content.message) > values.MAX_MESSAGE
            for each in content["outcomes"].values():
                child.missing_from(each)
                correctness.readings(each.get("readings", {}))
                _is_finite(each.get("seconds", 0.0))
        except Exception:  # noqa: BLE001 - the gate would end with a traceback
            return True
        return True

    return fooled


def member(draw: random.Random) -> Attack:
    key = draw.choice(["seconds", "kept", "ms", "megacycles", "watts", "readings", "notes", "reasons", "blocks", "environment"])
    bomb = draw.choice([10 ** draw.randrange(25, 900), "t" * draw.randrange(4097, 9000), -(1 << draw.randrange(65, 900))])
    for _ in range(draw.randrange(3)):
        bomb = draw.choice([[bomb], {"k": bomb}, [1, [bomb]]])
    return Attack(name=f"{key} of {type(bomb).__name__}", attempt=read({key: bomb}))


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(child, "loads", json.loads)
    patch.setattr(child, "shorten", lambda text: text)


CLASS = AttackClass(
    name="hostile results",
    attacks=tuple(Attack(name=name, attempt=read(outcome)) for name, outcome in OUTCOMES.items()),
    member=member,
    mutant=mutant,
)

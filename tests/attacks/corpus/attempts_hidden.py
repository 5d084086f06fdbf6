"""Running the gate again until it is green, where the count does not see it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from comment_server import TRUSTED
from scripts import script

attempts = script("attempts")
MOST = 5
HEAD, TREE = "c" * 40, "d" * 40
API = "https://api.github.com"
ENVIRON = {
    "ATTEMPTS_COMMIT": HEAD,
    "ATTEMPTS_EVENT": "pull_request",
    "ATTEMPTS_WORKFLOW": TRUSTED,
    "ATTEMPTS_MOST": str(MOST),
    "GITHUB_API_URL": API,
    "GITHUB_REPOSITORY": "flashcore/flashcore-ci",
    "GITHUB_RUN_ID": "1",
    "GITHUB_RUN_ATTEMPT": "1",
    "GH_TOKEN": "the-token",
}


def _run(number: int, **changes: Any) -> dict[str, Any]:
    run = {"id": number, "head_sha": HEAD, "run_attempt": 1, "event": "pull_request", "path": ".github/workflows/gate.yml"}
    run |= {"head_commit": {"tree_id": TREE}, "referenced_workflows": [{"path": TRUSTED}]}
    return {**run, **changes}


def _passes(runs: list[dict[str, Any]], **environ: str) -> bool:
    """Tell whether the step passes, when the API lists these runs."""

    def ask(_: str, url: str, __: str) -> Any:
        if url.endswith("/actions/runs/1"):
            return dict(next(run for run in runs if run["id"] == 1))
        field = "head_sha" if "head_sha=" in url else "event"
        value, page = url.partition(f"{field}=")[2].partition("&")[0], int(url.rpartition("&page=")[2])
        return {"workflow_runs": [run for run in runs if run[field] == value][100 * (page - 1) : 100 * page]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempts, "ask", ask)
        patch.setattr(attempts.sys.modules["github_api"], "ask", ask)
        return attempts.main({**ENVIRON, **environ}) == 0


def _attack(name: str, runs: list[dict[str, Any]], **environ: str) -> Attack:
    def attempt(_: Path) -> bool:
        return _passes(runs, **environ)

    return Attack(name=name, attempt=attempt)


def _more(count: int = 6, **changes: Any) -> list[dict[str, Any]]:
    return [_run(1), *(_run(number, **changes) for number in range(2, count + 1))]


EMPTY_COMMIT = {"head_sha": "e" * 40}
OTHER_CASE = [{"path": "FlashCore/FLASHCORE-ci/.github/workflows/trusted.yml@main"}]
ATTACKS = (
    _attack("the same run again", [_run(1, run_attempt=6)], GITHUB_RUN_ATTEMPT="6"),
    _attack("the API is one attempt late", [_run(1, run_attempt=5)], GITHUB_RUN_ATTEMPT="6"),
    _attack("the API lists an old attempt", [_run(1, run_attempt=1)], GITHUB_RUN_ATTEMPT="6"),
    _attack("closed and opened again", _more()),
    _attack("two runs with three attempts each", [_run(1, run_attempt=3), _run(2, run_attempt=3)], GITHUB_RUN_ATTEMPT="3"),
    _attack("runs that were cancelled", _more(conclusion="cancelled")),
    _attack("runs that failed", _more(conclusion="failure")),
    _attack("runs of another branch", _more(head_branch="other")),
    _attack("empty commits", _more(**EMPTY_COMMIT)),
    _attack("an amended message", [_run(1), *(_run(n, head_sha=f"{n:040x}") for n in range(2, 7))]),
    _attack("empty commits with attempts", [_run(1, run_attempt=2), _run(2, run_attempt=4, **EMPTY_COMMIT)]),
    _attack("the caller has another file name", _more(path=".github/workflows/renamed.yml")),
    _attack("the caller writes the owner in other case", _more(referenced_workflows=OTHER_CASE)),
    _attack("the caller calls another ref", _more(referenced_workflows=[{"path": TRUSTED.replace("main", "v1")}])),
    _attack("the caller calls a second workflow first", _more(referenced_workflows=[{"path": "a/b/c.yml@x"}, {"path": TRUSTED}])),
    _attack("the rule of an organisation runs it", _more(referenced_workflows=[], path=TRUSTED)),
    _attack("more runs than one page", _more(count=150)),
    _attack("an attempt that counts as nothing", _more(run_attempt=0)),
    _attack("attempts below zero", [_run(1, run_attempt=6), _run(2, run_attempt=-5)], GITHUB_RUN_ATTEMPT="6"),
    _attack("the queue tries the same files", _more(event="pull_request", **EMPTY_COMMIT)),
)


def _member(numbers: random.Random) -> Attack:
    """Spread more attempts than allowed over any number of runs that look different."""
    left, number, runs = numbers.randint(MOST + 1, 40), 1, []
    while left > 0:
        part = numbers.randint(1, min(left, 4))
        looks = [
            {},
            {"head_sha": f"{numbers.getrandbits(160):040x}"},
            {"referenced_workflows": OTHER_CASE},
            {"path": f".github/workflows/{numbers.randrange(99)}.yml"},
            {"conclusion": numbers.choice(("failure", "cancelled", None))},
        ]
        runs.append(_run(number, run_attempt=part, **({} if number == 1 else numbers.choice(looks))))
        left, number = left - part, number + 1
    return _attack(f"{number - 1} runs", runs, GITHUB_RUN_ATTEMPT=str(runs[0]["run_attempt"]))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "count", lambda *_: attempts.Count(runs=1, attempts=1))


CLASS = AttackClass(name="attempts hidden", attacks=ATTACKS, member=_member, mutant=_mutant)

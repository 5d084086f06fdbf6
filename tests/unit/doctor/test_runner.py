from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sound_gpu import SOUND

from flashcore_ci.adapters.host import HostInfo
from flashcore_ci.adapters.nvml import User
from flashcore_ci.doctor import runner
from flashcore_ci.doctor.runner import RunnerFacts, Status

PAGE = Path(__file__).parents[3] / runner.PAGE
HOST = HostInfo(
    gpus=1,
    root=False,
    capabilities=0,
    in_container=False,
    profiling_is_restricted=False,
    processes=("Runner.Listener", "systemd"),
    secrets=(),
    credentials=(),
    sockets=(),
    ephemeral=True,
    has_cleanup_hook=False,
    leftovers=(),
)
SAFE = RunnerFacts(
    host=HOST,
    state=replace(SOUND, persistent=True),
    counters_work=True,
    passwordless_sudo=False,
    allow=("dcgm*",),
    lock="/var/lock/flashcore-ci",
    lock_is_writable=True,
    lock_is_named=True,
    free=1 << 40,
)
ADMIN = 1 << 21


def facts(**changes: object) -> RunnerFacts:
    """The safe runner with something else about it; a name of the host's, of the GPU's state or of the facts'."""
    host = {name: value for name, value in changes.items() if name in HostInfo.__slots__}
    state = {name: value for name, value in changes.items() if name in {"persistent", "reasons", "users"}}
    rest = {name: value for name, value in changes.items() if name not in host and name not in state}
    return replace(SAFE, **{"host": replace(HOST, **host), "state": replace(SAFE.state, **state), **rest})


def test_a_safe_runner() -> None:
    items = runner.check(SAFE)
    assert {item.status for item in items} == {Status.VERIFIED}
    assert {item.fix for item in items} == {""}
    assert runner.render(items).endswith(f"runner: {len(items)} verified (docs/runner.md)\n")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ephemeral", {"ephemeral": False, "has_cleanup_hook": True}),
        ("user", {"root": True}),
        ("user", {"passwordless_sudo": True}),
        ("secrets", {"secrets": ("GH_TOKEN",)}),
        ("secrets", {"credentials": ("~/.netrc",)}),
        ("containers", {"sockets": ("/var/run/docker.sock",)}),
        ("containers", {"in_container": True, "capabilities": ADMIN}),
        ("counters", {"counters_work": None, "profiling_is_restricted": True}),
        ("counters", {"counters_work": None, "profiling_is_restricted": True, "capabilities": ADMIN}),
        ("dcgm", {"counters_work": False, "processes": ("nv-hostengine",)}),
        ("clocks", {"persistent": False}),
        ("clocks", {"reasons": ("power brake",)}),
        ("one-gpu", {"gpus": 8}),
        ("one-gpu", {"processes": ("Runner.Listener",) * 2}),
        ("alone", {"users": (User(pid=7, name="train", descendant=False),)}),
        ("lock", {"lock_is_writable": False}),
        ("cleaning", {"leftovers": ("/tmp/flashcore-ci-x",)}),
        ("disk", {"free": 1 << 30}),
    ],
)
def test_each_item_can_fail_and_says_what_fixes_it(name: str, changes: dict[str, object]) -> None:
    (found,) = [item for item in runner.check(facts(**changes)) if item.status is Status.FAILED]
    assert (found.id, bool(found.fix)) == (name, True)
    assert found.fix in runner.render((found,))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ephemeral", {"ephemeral": None, "has_cleanup_hook": True}),
        ("cleaning", {"ephemeral": None}),
        ("containers", {"capabilities": None}),
        ("counters", {"counters_work": None, "profiling_is_restricted": None}),
        ("dcgm", {"counters_work": None, "in_container": True}),
        ("dcgm", {"counters_work": None, "processes": ("dcgm-exporter",)}),
        ("clocks", {"state": None}),
        ("clocks", {"persistent": None}),
        ("one-gpu", {"gpus": 0}),
        ("alone", {"users": (User(pid=7, name="", descendant=False),)}),
        ("lock", {"in_container": True, "lock_is_named": False}),
    ],
)
def test_what_cannot_be_seen_is_not_verified(name: str, changes: dict[str, object]) -> None:
    found = {item.id: item for item in runner.check(facts(**changes))}[name]
    assert (found.status, bool(found.fix)) == (Status.UNSEEN, True)
    assert not any(item.status is Status.FAILED for item in runner.check(facts(**changes)))


def test_a_runner_that_stays_without_a_hook_fails_twice() -> None:
    failed = [item.id for item in runner.check(facts(ephemeral=False)) if item.status is Status.FAILED]
    assert failed == ["ephemeral", "cleaning"]


@pytest.mark.parametrize(
    "changes", [{"root": True, "in_container": True}, {"users": (User(pid=7, name="dcgm-x", descendant=False),)}]
)
def test_what_is_no_problem(changes: dict[str, object]) -> None:
    assert {item.status for item in runner.check(facts(**changes))} == {Status.VERIFIED}


def test_the_page_has_a_section_for_each_item_in_this_order() -> None:
    sections = re.findall(r"^## ([a-z-]+): (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [(name, title) for name, (title, _, _) in runner.ITEMS.items()]

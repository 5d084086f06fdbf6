from dataclasses import replace
from pathlib import Path

import pytest
from factories import make_plan

from flashcore_ci.collect.comparison import Base
from flashcore_ci.model.anchor import Pin, PinnedCode
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import Identity
from flashcore_ci.run.base import anchor
from flashcore_ci.run.request import Request
from flashcore_ci.suite.anchors import append_anchor

BUILT = Identity(machine_code="a" * 64, launcher="b" * 64, binding="c" * 64, subject="d" * 64, workload="w", collector="c")
CODE = PinnedCode(subject="s", machine_code="a" * 64, launcher="b" * 64, binding="c" * 64, source="f" * 64)
PIN = Pin(
    suite="tiny",
    commit="e" * 40,
    since="2026-11-22",
    reason="why",
    owner="o",
    compiler="nvcc 13.0.88",
    tools=(("torch", "2.10"), ("triton", "3.5")),
    codes={"big": CODE},
)


def base_of(**identities):
    return Base(
        commit="e" * 40, root=Path(), libraries=Path(), plan=make_plan(), builds=(), identities=identities, cannot={"lost": "why"}
    )


def request_of(tmp_path, **changes):
    return Request(suite=Path("tiny.toml"), out=tmp_path, environ={}, checkout=tmp_path, **changes)


@pytest.fixture
def tools(monkeypatch):
    found = {"torch": "2.10", "triton": "3.5"}
    monkeypatch.setattr(anchor, "tools_of", lambda *_: tuple(found.items()))
    return found


@pytest.mark.parametrize(
    ("identity", "version", "words"),
    [
        (BUILT, "2.10", None),
        (replace(BUILT, subject="head's"), "2.10", None),
        (replace(BUILT, machine_code="0"), "2.10", "the anchor's machine code is not the pinned one"),
        (replace(BUILT, launcher="0", binding="0"), "2.10", "the anchor's launcher, binding is not the pinned one"),
        (BUILT, "2.11", "the anchor is pinned with torch 2.10, and 2.11 is here"),
    ],
)
def test_only_the_pinned_build_with_the_pinned_tools_is_timed(tmp_path, tools, identity, version, words):
    tools["torch"] = version
    found = anchor.checked(base_of(big=identity), PIN, request_of(tmp_path), tmp_path)
    assert found.cannot.get("big") == words
    assert list(found.identities) == ([] if words else ["big"])
    assert found.cannot["lost"] == "why"


def test_a_workload_that_is_not_pinned_is_not_timed(tmp_path, tools):
    assert (
        anchor.checked(base_of(other=BUILT), PIN, request_of(tmp_path), tmp_path).cannot["other"] == "the anchor does not pin it"
    )


def test_the_anchor_is_built_by_its_own_compiler_and_run_by_its_own_interpreter(tmp_path):
    newer = replace(PIN, compiler="nvcc 13.9.1")
    there = anchor.of_anchor(request_of(tmp_path, anchor_python=Path("/old/python"), toolchain="13.5", base_build=Path("x")), PIN)
    assert (there.base_toolchain, there.base_python, there.base_build) == ("13.0", Path("/old/python"), None)
    assert anchor.of_anchor(request_of(tmp_path, toolchain="system"), newer).base_toolchain == "system"


def test_a_suite_without_an_anchor_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="pins no anchor of the suite tiny"):
        anchor.required_pin(request_of(tmp_path), "tiny")
    append_anchor(tmp_path / "tiny.toml", PIN)
    assert anchor.required_pin(request_of(tmp_path), "tiny") == PIN
    with pytest.raises(UsageError, match="pins no anchor of the suite other"):
        anchor.required_pin(request_of(tmp_path), "other")

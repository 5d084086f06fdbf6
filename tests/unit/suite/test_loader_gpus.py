"""A subject that asks for several GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from suite_texts import WHOLE

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.identity import workload_digest
from flashcore_ci.model.suite import Suite

FILE = 'file = "scale.py"'
Read = Callable[[str], Suite]


def with_key(line: str) -> str:
    return WHOLE.replace(FILE, f"{FILE}\n{line}")


def test_a_suite_without_the_key_is_as_before(read: Read) -> None:
    plain, one = read(WHOLE), read(WHOLE.replace(FILE, f"{FILE}\ngpus = 1"))
    assert plain.workloads == one.workloads
    assert all(workload.gpus == 1 and "gpus" not in dict(workload.params) for workload in plain.workloads)


@pytest.mark.parametrize(
    ("line", "message"),
    [("gpus = 0", "gpus"), ("gpus = 9", "gpus"), ('gpus = "2"', "gpus"), ("gpus = true", "gpus"), ("gpus = 2.0", "gpus")],
)
def test_the_number_is_bounded(read: Read, line: str, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        read(with_key(line))
    assert any(message in problem for problem in caught.value.problems)


def test_every_workload_of_the_subject_runs_on_them(read: Read) -> None:
    suite = read(with_key("gpus = 2"))
    assert [(workload.gpus, dict(workload.params)["gpus"]) for workload in suite.workloads] == [(2, 2), (2, 2)]


@pytest.mark.parametrize("kind", ["profile", "comparison", "machine-code"])
def test_what_a_group_cannot_do_is_named(read: Read, kind: str) -> None:
    with pytest.raises(SuiteError) as caught:
        read(with_key("gpus = 2").replace('"timing"]', f'"{kind}"]'))
    assert any(f'"{kind}" cannot be collected from 2 GPUs' in problem for problem in caught.value.problems)


def test_the_number_is_not_a_parameter(read: Read) -> None:
    with pytest.raises(SuiteError) as caught:
        read(WHOLE.replace("params = { ", "params = { gpus = 2, "))
    assert any("gpus is not a parameter" in problem for problem in caught.value.problems)


def test_a_candidate_that_is_not_trusted_has_one_gpu(read: Read, checkout: Path) -> None:
    (checkout / "candidate.py").write_text("from elsewhere import *\n", encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        read(with_key('gpus = 2\ncandidate = ["candidate.py"]'))
    assert any("a candidate that is not trusted" in problem for problem in caught.value.problems)


def test_evidence_of_one_gpu_is_not_that_of_two(read: Read) -> None:
    one, two = (read(with_key(f"gpus = {count}")).workloads[0] for count in (1, 2))
    assert workload_digest(one) != workload_digest(two)


SHARE = """
[[gate]]
id = "link-share"
title = "near the link's peak"
evidence = "timing"
metric = "link/share"
rule = ">="
limits = [{ value = 34, unit = "%" }]
why = "because"
owner = "kernels"
"""


def test_a_share_of_the_link_names_its_peak(read: Read) -> None:
    suite = read((with_key("gpus = 2") + SHARE).replace("bandwidth = 4.8e12", "bandwidth = 4.8e12\nlink = 450e9"))
    assert suite.ridge.link == 450e9
    assert {gate.id: gate.peak for gate in suite.gates} == {"finite": None, "link-share": 450e9}


def test_a_share_of_an_unknown_link_is_a_mistake(read: Read) -> None:
    with pytest.raises(SuiteError) as caught:
        read(with_key("gpus = 2") + SHARE)
    (problem,) = caught.value.problems
    assert (
        problem
        == "gates/tiny.toml:3: ridge: give link, the byte/s of one direction between GPUs: link-share judges a share of it"
    )

"""The cases of E4M3 in FlashAttention-3's own tests: which there are, which are refused, and how one runs."""

from __future__ import annotations

import collections
import importlib.util
import itertools
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SEED = 18


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("upstream_for_fp8", Path(__file__).parents[3] / "kernel/subjects/upstream.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


subject = load()
fp8, sets = subject.upstream_fp8, subject.upstream_cases


def test_the_sample_and_what_is_refused() -> None:
    served = fp8.plan(SEED)
    assert len(set(served)) == len(served) == 2466
    assert served != fp8.plan(SEED + 1)
    assert len({case for group in fp8.GROUPS for case in fp8.choose(fp8.SAMPLE, group, SEED)}) == fp8.SAMPLE
    everything = [case for test in fp8.TESTS for case in fp8.list_cases(test)]
    refused = collections.Counter(fp8.find_refused(case) for case in everything)
    assert len(everything) == 61_920
    assert refused.pop("") == 2466
    assert set(refused) == {
        "packed queries over a cache", "softcap", "window", "chunk", "rotary", "left padding", "small pages", "more than 16 queries over a cache",
    }  # fmt: skip


def test_shapes_are_those_of_the_cases_of_16_bits() -> None:
    assert {test: sets.SHAPES[test] for test in fp8.SHAPES} == fp8.SHAPES


def test_no_case_is_skipped_upstream() -> None:
    for p in (case.arguments for case in fp8.plan(SEED)):
        assert not p.get("V_colmajor") or p["seqlen_k"] % 16 == 0
        assert not p.get("page_size") or p["seqlen_k"] % p["page_size"] == 0
        assert not p.get("has_qv")


def test_a_case_has_one_kind_of_chunk() -> None:
    with_chunk = subject._restrict(64, chunk=True)
    assert list(with_chunk([64], [17, 0])) == [(64, 17)]
    without = subject._restrict(64, chunk=False)
    assert list(without([64], [17, 0])) == [(64, 0)]
    assert list(without([1, 2], [3])) == list(itertools.product([1, 2], [3]))  # inner loops stay


def test_kernels_of_e4m3_serve_its_cases_and_no_others() -> None:
    kernels = [
        set(subject.problem({"sample": sample, "group": group})["entries"])
        for sample, group in ((1000, "fp8-dense"), (600, "dense"))
    ]
    assert not kernels[0] & kernels[1]
    assert "flashcore_e4m3_fwd_d128_full" in kernels[0]
    assert "flashcore_e4m3_permute_values" in kernels[0]
    assert "flashcore_attention_fwd_d128_bf16_full" in kernels[1]
    assert kernels[0] | kernels[1] <= {entry["symbol"] for entry in subject.build(subject.KERNEL.parent)["entries"]}


def test_the_suite_holds_the_number_of_cases_of_every_group() -> None:
    suite = tomllib.loads((subject.KERNEL.parent / "gates/upstream.toml").read_text(encoding="utf-8"))
    limits = {row["on"]: row["value"] for gate in suite["gate"] for row in gate["limits"] if "fp8" in row.get("on", "")}
    assert limits == {f"*{group}-{fp8.SAMPLE}": len(fp8.choose(fp8.SAMPLE, group, SEED)) for group in fp8.GROUPS}
    assert sum(limits.values()) == fp8.SAMPLE


@pytest.mark.parametrize(
    "params", [{"sample": 601, "group": "dense"}, {"sample": 600, "group": "sparse"}, {"sample": 600, "group": "fp8-dense"}]
)
def test_an_unknown_sample_or_group_is_named(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(sample: .* is 601|sample: .* is 600|group: .* is 'sparse')$"):
        subject.problem(params)

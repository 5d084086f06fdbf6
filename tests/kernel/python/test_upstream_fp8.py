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
import standin_torch as torch

SEED = 18
BATCH, HEADS, D = 5, 6, 128


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("upstream_for_fp8", Path(__file__).parents[3] / "kernel/subjects/upstream.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


subject = load()
fp8, sets = subject.upstream_fp8, subject.upstream_cases


def test_the_sample_and_what_is_refused() -> None:
    served = fp8.plan(SEED)
    assert len(set(served)) == len(served) == 2418
    assert served != fp8.plan(SEED + 1)
    assert len({case for group in fp8.GROUPS for case in fp8.choose(fp8.SAMPLE, group, SEED)}) == fp8.SAMPLE
    everything = [case for test in fp8.TESTS for case in fp8.list_cases(test)]
    refused = collections.Counter(fp8.find_refused(case) for case in everything)
    assert len(everything) == 61_920
    assert refused.pop("") == 2418
    assert set(refused) == {
        "packed queries over a cache", "softcap", "window", "chunk", "rotary", "left padding", "small pages", "more than 16 queries over a cache",
        "batch index without pages",
    }  # fmt: skip


def test_shapes_are_those_of_the_cases_of_16_bits() -> None:
    assert {test: sets.SHAPES[test] for test in fp8.SHAPES} == fp8.SHAPES


def test_no_case_is_skipped_upstream() -> None:
    for p in (case.arguments for case in fp8.plan(SEED)):
        assert not p.get("V_colmajor") or p["seqlen_k"] % 16 == 0
        assert not p.get("page_size") or p["seqlen_k"] % p["page_size"] == 0
        assert not p.get("has_qv")


def attend_to_cache(bindings: Any, p: dict[str, Any]) -> None:
    """Call the function with the tensors of a case of caches, without a window and the like."""
    e4m3, kv_heads = torch.float8_e4m3fn, {"mha": HEADS, "gqa": 3, "mqa": 1}[p["mha_type"]]
    page, stored = p["page_size"], BATCH * (1 + p["has_batch_idx"])
    shape = (3 * stored * p["seqlen_k"] // page, page) if page else (stored, p["seqlen_k"])
    caches = [torch.empty(*shape, kv_heads, D, dtype=e4m3) for _ in "kv"]
    new = [torch.empty(BATCH, p["seqlen_q"], kv_heads, D, dtype=e4m3) for _ in "kv"] if p["new_kv"] else [None, None]
    rows = BATCH if page else stored  # stand-ins cannot choose rows of a table, so it has been done
    options = {"page_table": torch.empty(rows, p["seqlen_k"] // page, dtype=torch.int32)} if page else {}
    if p["has_batch_idx"] and not page:
        options["cache_batch_idx"] = torch.empty(BATCH, dtype=torch.int32)
    lengths = torch.empty(BATCH, dtype=torch.int32)
    q = torch.empty(BATCH, p["seqlen_q"], HEADS, D, dtype=e4m3)
    bindings.flashcore.flash_attn_with_kvcache(q, *caches, *new, cache_seqlens=lengths, causal=p["causal"], **options)


def find_caches(*refused: str) -> list[dict[str, Any]]:
    """Return cases of caches that are refused for one of these reasons."""
    return [case.arguments for case in fp8.list_cases("kvcache") if fp8.find_refused(case) in refused]


def test_the_function_serves_all_planned_caches(bindings: Any) -> None:
    served = find_caches("")
    for p in served:
        attend_to_cache(bindings, p)
    assert [name for name, _ in bindings.kernels.calls] == ["flashcore_decode"] * len(served)
    assert {(p["page_size"], p["has_batch_idx"]) for p in served} == {(None, False), (None, True), (128, False), (128, True)}


def test_the_function_refuses_the_caches_that_the_plan_leaves_out(bindings: Any) -> None:
    refused = find_caches("small pages", "more than 16 queries over a cache", "batch index without pages")
    assert {p["seqlen_k"] for p in refused if p["has_batch_idx"] and not p["page_size"] and p["seqlen_q"] <= 16} == {
        339,
        799,
        20_000,
    }
    for p in refused:
        with pytest.raises(NotImplementedError, match=r"^k_cache: a cache of E4M3 needs"):
            attend_to_cache(bindings, p)
    assert not bindings.kernels.calls


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

"""Run a seeded sample of FlashAttention-3's own tests on FlashCore: ``python3 tools/bench/upstream.py FOLDER --sample 600``.

FOLDER holds ``hopper/test_flash_attn.py`` and what it imports, which are not part of this repository. Windows, softcap, FP8, backward and
values of another dimension are left out. ``--peer`` runs FlashAttention-3's package instead. The last line is JSON with counts by feature.
The exit code is 1 if a case failed or was refused.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FUNCTIONS = ("test_flash_attn_output", "test_flash_attn_varlen_output", "test_flash_attn_kvcache")
LEFT_OUT = ("BACKWARD", "FP8", "LOCAL", "SOFTCAP")
Case = tuple[str, dict[str, Any]]
Counts = collections.Counter[tuple[str, str]]


def can_run(p: Mapping[str, Any]) -> bool:
    """Return whether the upstream test would not skip the case, and it is not left out."""
    return not (
        p.get("has_qv") or p.get("softcap") or p.get("local")
        or (p.get("page_size") is not None and p["seqlen_k"] % p["page_size"])
        or (p.get("new_kv") is False and p.get("rotary_fraction", 0) > 0)
        or (p.get("new_kv") and p["seqlen_q"] > p["seqlen_k"])
    )  # fmt: skip


def draw_parameters(function: Any, draw: random.Random) -> dict[str, Any]:
    """Draw a value of each ``pytest.mark.parametrize`` of a test."""
    parameters: dict[str, Any] = {}
    for mark in function.pytestmark:
        if mark.name == "parametrize":
            given = mark.args[0]
            names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
            value = draw.choice(list(mark.args[1]))
            parameters |= dict(zip(names, value if len(names) > 1 else (value,), strict=True))
    return parameters


def draw_cases(tests: Any, sample: int, seed: int) -> list[Case]:
    """Draw different cases, the same number of each function."""
    cases: list[Case] = []
    for name in FUNCTIONS:
        draw, chosen = random.Random(seed), set()  # noqa: S311 - no secret
        while len(chosen) < sample // len(FUNCTIONS):
            parameters = draw_parameters(getattr(tests, name), draw)
            key = tuple(sorted((argument, str(value)) for argument, value in parameters.items()))
            if can_run(parameters) and key not in chosen:
                chosen.add(key)
                cases.append((name, parameters))
    random.Random(seed).shuffle(cases)  # noqa: S311 - no secret
    return cases


def list_features(name: str, p: Mapping[str, Any]) -> Iterator[str]:
    """Name what a case uses."""
    yield name.removeprefix("test_flash_attn_")
    yield f"d {p['d']}"
    yield str(p["mha_type"])
    for feature, is_used in (
        ("causal", p.get("causal")), ("append", p.get("new_kv")), ("rotary", p.get("rotary_fraction", 0) > 0),
        ("left padding", p.get("has_leftpad")), ("batch index", p.get("has_batch_idx")), ("packed queries", p.get("varlen_q")),
        ("unused rows", p.get("add_unused_qkv")),
    ):  # fmt: skip
        if is_used:
            yield feature
    if p.get("page_size") is not None:
        yield f"page {p['page_size']}"


def run_case(test: Callable[..., None], parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Return passed, skipped, refused or failed, and why."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            test(**parameters)
    except pytest.skip.Exception as error:
        return "skipped", str(error)
    except NotImplementedError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001 - any error of a case is its result
        return "failed", f"{type(error).__name__}: {error}"
    return "passed", ""


def provide_rotary() -> None:
    """Publish a plain ``apply_rotary_emb``, without which upstream leaves its rotary cases out."""
    torch = importlib.import_module("torch")

    def apply_rotary_emb(x: Any, cos: Any, sin: Any, *, interleaved: bool = False, seqlen_offsets: Any = 0) -> Any:
        half, y = cos.shape[-1], x.float().clone()
        first = torch.as_tensor(seqlen_offsets, device=x.device).long().expand(x.shape[0])
        at = (first[:, None] + torch.arange(x.shape[1], device=x.device)).clamp(max=cos.shape[0] - 1)
        c, s = cos[at].float()[:, :, None], sin[at].float()[:, :, None]
        a, b = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
        y[..., a], y[..., b] = x[..., a].float() * c - x[..., b].float() * s, x[..., a].float() * s + x[..., b].float() * c
        return y.to(x.dtype)

    for name in ("flash_attn", "flash_attn.layers", "flash_attn.layers.rotary"):
        sys.modules.setdefault(name, ModuleType(name)).__path__ = []
    vars(sys.modules["flash_attn.layers.rotary"])["apply_rotary_emb"] = apply_rotary_emb


def count(tests: Any, cases: list[Case], seconds: float) -> Counts:
    """Run cases until the time is over, print each that did not pass, and count results by feature."""
    counts: Counts = collections.Counter()
    end = time.monotonic() + seconds
    for name, parameters in cases:
        if time.monotonic() > end:
            break
        result, why = run_case(getattr(tests, name), parameters)
        counts.update((feature, result) for feature in ("all", *list_features(name, parameters)))
        if result not in {"passed", "skipped"}:
            values = " ".join(f"{argument}={value}" for argument, value in parameters.items())
            print(f"{result} {name} {values}: {' '.join(why.split())[:300]}", flush=True)
    return counts


def main() -> int:
    """Run the sample. The part of a shard is every nth case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--shard", default="0/1", help="for example 1/2: the second half")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    os.environ |= {f"FLASH_ATTENTION_DISABLE_{name}": "TRUE" for name in LEFT_OUT}
    sys.path[:0] = [str(options.folder), str(Path(__file__).resolve().parents[2] / "kernel")]
    provide_rotary()
    if not options.peer:
        importlib.import_module("flashcore.fa3")  # defines flash_attn_interface
    tests = importlib.import_module("test_flash_attn")
    part, parts = map(int, options.shard.split("/"))
    counts = count(tests, draw_cases(tests, options.sample, options.seed)[part::parts], options.seconds)
    table: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for (feature, result), number in sorted(counts.items()):
        table[feature][result] = number
    print(json.dumps(table), flush=True)
    return 1 if counts["all", "failed"] or counts["all", "refused"] or not counts["all", "passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

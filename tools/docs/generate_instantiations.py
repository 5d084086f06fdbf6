"""Write kernel/instantiations/ and the host's list of variants from kernel/variants.toml.

Each entry function has its own small translation unit. So they compile in parallel, and each has its own digest.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BANNER = "// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.\n"
DTYPES = {"fp16": "kFp16", "bf16": "kBf16", "e4m3": "kE4m3"}

TILED = """\
#include "{header}"

namespace {{
struct Tuning {{
    static constexpr flashcore::%(space)s::Config config = {{
        %(config)s}};
}};
constexpr int kThreads = flashcore::%(space)s::threads(Tuning::config);
constexpr int kSharedBytes = {dynamic_shared_bytes};
static_assert(kSharedBytes == flashcore::%(space)s::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, {ctas_per_multiprocessor})
    {symbol}(const __grid_constant__ flashcore::%(space)s::{params} params) {{
    flashcore::%(space)s::%(function)s<Tuning>(params);
}}

extern "C" const flashcore::%(space)s::%(variant)s {symbol}_variant = {{
    Tuning::config, flashcore::launch<{symbol}, kThreads, kSharedBytes, flashcore::%(space)s::%(params)s>}};
"""

ATTENTION = """\
.head_dim = {head_dim}, .dtype = flashcore::attention::DType::{dtype}, .causal = {causal}, .tile_m = {tile_m},
        .tile_n = {tile_n}, .q_stages = {q_stages}, .kv_stages = {kv_stages}, .consumer_warpgroups = {consumer_warpgroups},
        .ping_pong_barrier = {ping_pong_barrier}, .query_in_registers = {query_in_registers},
        .tma_store_epilogue = {tma_store_epilogue}, .stale_max_speculation = {stale_max_speculation},
        .recompute_qk = {recompute_qk}, .paged_kv = {paged_kv}"""

LOCAL = ",\n        .local = true, .softcap = {softcap}"

E4M3 = """\
#include "{header}"

namespace {{
struct Tuning {{
    static constexpr flashcore::attention::Config config = {{
        %(config)s}};
    static constexpr flashcore::attention::e4m3::Softmax softmax = {{
        .offset = {offset}, .polynomials = {polynomials}, .rounded_sums = {rounded_sums}, .half_packing = {half_packing}%(block)s}};
    static constexpr flashcore::attention::e4m3::Products products = {{
        .columns = {product_columns}}};
}};
constexpr int kThreads = flashcore::attention::threads(Tuning::config);
constexpr int kSharedBytes = {dynamic_shared_bytes};
static_assert(kSharedBytes == flashcore::attention::e4m3::shared_bytes(Tuning::config, Tuning::softmax),
              "kernel/variants.toml must agree");
}}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    {symbol}(const __grid_constant__ flashcore::attention::%(params)s params) {{
    flashcore::attention::e4m3::forward<Tuning>(params);
}}

extern "C" const flashcore::attention::%(variant)s {symbol}_variant = {{
    Tuning::config, flashcore::launch<{symbol}, kThreads, kSharedBytes, flashcore::attention::%(params)s>}};
"""

TRANSPOSE = """\
#include "{header}"

namespace {{
constexpr int kThreads = {threads};
constexpr int kColumns = {columns};
}}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, {ctas_per_multiprocessor}) {symbol}(
    const __grid_constant__ flashcore::attention::e4m3::TransposeParams params) {{
    flashcore::attention::e4m3::transpose_values<kThreads, kColumns>(params);
}}

extern "C" const flashcore::attention::e4m3::TransposeVariant {symbol}_variant = {{
    {{kThreads}}, flashcore::launch<{symbol}, kThreads, {dynamic_shared_bytes}, flashcore::attention::e4m3::TransposeParams>}};
"""

DECODE = """\
.head_dim = {head_dim}, .dtype = flashcore::DType::{dtype}, .tile_keys = {tile_keys}, .stages = {stages},
        .consumer_warps = {consumer_warps}"""

WARPGROUP = ", .warpgroup = true,\n        .producer_warps = 1, .ctas_per_multiprocessor = {ctas_per_multiprocessor}"
DECODE_RAGGED = f"{DECODE}, .ragged = true{{warpgroup}}"

DECODE_LOCAL = f"{DECODE}, .ragged = {{ragged}}, .local = true{{warpgroup}}"

DECODE_FP8 = f"{DECODE}, .fp8_cache = true"

DECODE_GATHER = f"{DECODE}, .ragged = true, .local = true,\n        .gathered = true, .producer_warps = {{producer_warps}}"

STREAMED = """\
#include "{header}"

namespace {{
struct Tuning {{
    static constexpr flashcore::%(space)s::Config config = {{
        %(config)s}};
}};
}}  // namespace

extern "C" __global__ void __launch_bounds__(Tuning::config.threads%(limit)s)
    {symbol}(const __grid_constant__ flashcore::%(space)s::Params params) {{
    flashcore::%(space)s::%(function)s<Tuning>(params);
}}

extern "C" const flashcore::%(space)s::%(variant)s {symbol}_variant = {{
    Tuning::config,
    flashcore::launch<{symbol}, Tuning::config.threads, {dynamic_shared_bytes}, flashcore::%(space)s::Params>}};
"""
AXPY = ".threads = {threads}, .vectors_per_thread = {vectors_per_thread}"
COMBINE = ".threads = {threads}, .ctas_per_multiprocessor = {ctas_per_multiprocessor}, .splits_in_flight = {splits_in_flight}"
LIMIT = ", Tuning::config.ctas_per_multiprocessor"
DEFAULTS = {"paged_kv": False, "softcap": False, "ragged": False, "ctas_per_multiprocessor": 1}

VARLEN = """\
#include "{header}"

namespace {{
constexpr int kThreads = {threads};
}}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) {symbol}(
    const __grid_constant__ flashcore::attention::PagedBatch batch) {{
    flashcore::attention::prepare_batch<kThreads>(batch);
}}

extern "C" const flashcore::attention::PrepareVariant {symbol}_variant = {{
    {{kThreads}}, flashcore::launch<{symbol}, kThreads, {dynamic_shared_bytes}, flashcore::attention::PagedBatch>}};
"""


def _fill_decode(config: str, kind: str) -> str:
    names = {"variant": f"{kind}DecodeVariant", "params": f"{kind}Params"}
    return TILED % {"space": "decode", "config": config, "function": "decode", **names}


TEMPLATES = {
    "attention": TILED
    % {"space": "attention", "config": ATTENTION, "function": "forward", "variant": "AttentionVariant", "params": "LocalParams"},
    "attention_local": TILED
    % {
        "space": "attention",
        "config": ATTENTION + LOCAL,
        "function": "forward",
        "variant": "AttentionVariant",
        "params": "LocalParams",
    },
    "varlen": VARLEN,
    "e4m3": E4M3 % {"config": ATTENTION, "block": "", "params": "e4m3::ForwardParams", "variant": "e4m3::ForwardVariant"},
    "e4m3_block": E4M3
    % {"config": ATTENTION, "block": ", .block_scales = true", "params": "e4m3::BlockParams", "variant": "e4m3::BlockVariant"},
    "e4m3_transpose": TRANSPOSE,
    "decode": _fill_decode(f"{DECODE}{{deterministic}}", ""),
    "decode_ragged": _fill_decode(DECODE_RAGGED, "Ragged"),
    "decode_local": _fill_decode(DECODE_LOCAL, "Local"),
    "decode_fp8": _fill_decode(DECODE_FP8, "Fp8"),
    "decode_key_scales": _fill_decode(f"{DECODE_FP8}, .key_scales = true", "KeyScale"),
    "decode_gather": _fill_decode(DECODE_GATHER, "Gather"),
    "stream": STREAMED % {"space": "stream", "config": AXPY, "limit": "", "function": "axpy", "variant": "StreamVariant"},
    "combine": STREAMED
    % {"space": "combine", "config": COMBINE, "limit": LIMIT, "function": "combine", "variant": "CombineVariant"},
}
PARAMS = {
    "attention_local": "LocalParams",
    "decode_local": "LocalParams",
    "decode_fp8": "Fp8Params",
    "decode_key_scales": "KeyScaleParams",
    "decode_ragged": "RaggedParams",
    "decode_gather": "GatherParams",
}
LISTED = {
    "attention": "attention/variants.h",
    "attention_local": "attention/local_variants.h",
    "e4m3": "attention/e4m3_variants.h",
    "e4m3_block": "attention/e4m3_block_variants.h",
    "decode": "decode/variants.h",
    "decode_ragged": "decode/ragged_variants.h",
    "decode_fp8": "decode/fp8_variants.h",
    "decode_key_scales": "decode/key_scales_variants.h",
    "decode_local": "decode/local_variants.h",
    "decode_gather": "decode/gather_variants.h",
}
"""Operations whose launchers choose among several entry functions, and the header that lists these."""


def render(table: Mapping[str, Any]) -> dict[str, str]:
    """Render every generated file, by its path below the root."""
    files = {}
    for subject, template in TEMPLATES.items():
        group = table[subject]
        for entry in group["entries"]:
            fields = {
                **DEFAULTS,
                **group["tiles"][entry["tile"]],
                **entry,
                "header": group["header"],
            }
            fields["deterministic"] = ", .deterministic = true" if fields.get("deterministic") else ""
            fields["warpgroup"] = WARPGROUP.format(**fields) if fields.get("warpgroup") else ""
            fields["params"] = PARAMS.get(subject, "PagedParams" if fields["paged_kv"] else "Params")
            fields |= {key: str(value).lower() for key, value in fields.items() if isinstance(value, bool)}
            if "dtype" in entry:
                fields["dtype"] = DTYPES[entry["dtype"]]
            files[f"kernel/instantiations/{entry['symbol']}.cu"] = BANNER + template.format(**fields)
    for subject, header in LISTED.items():
        files[f"kernel/include/flashcore/{header}"] = _variant_list(subject, table[subject]["entries"])
    return files


def _variant_list(subject: str, entries: list[Mapping[str, Any]]) -> str:
    """List names only, so that a variant's tuning stays in its own translation unit and digest."""
    lines = " \\\n".join(f"    X({entry['symbol']}_variant)" for entry in entries)
    return f"{BANNER}#pragma once\n\n#define FLASHCORE_{subject.upper()}_VARIANTS(X) \\\n{lines}\n"


def stale(root: pathlib.Path) -> list[str]:
    """Return one line for each file that differs from what the generator would write."""
    problems = []
    for path, text in _expected(root).items():
        if not (root / path).is_file():
            problems.append(f"{path}: missing")
        elif (root / path).read_text(encoding="utf-8") != text:
            problems.append(f"{path}: {'left over' if text is None else 'stale'}")
    return problems


def write(root: pathlib.Path) -> None:
    """Write every file that differs and remove left-over ones."""
    files = _expected(root)
    for path in [problem.partition(":")[0] for problem in stale(root)]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if (text := files[path]) is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text, encoding="utf-8")


def main(argv: list[str]) -> int:
    """Write or check the files and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is not up to date")
    if not parser.parse_args(argv).check:
        write(ROOT)
        return 0
    problems = stale(ROOT)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return int(bool(problems))


def _expected(root: pathlib.Path) -> dict[str, str | None]:
    """Return the text of every file by path, None for one that is left over."""
    present = sorted(path.relative_to(root).as_posix() for path in (root / "kernel/instantiations").glob("*.cu"))
    return dict.fromkeys(present) | render(tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Check what the launchers accept and refuse: kernel/src compiled for the host, over a fake runtime."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

HOST = Path(__file__).parent
KERNEL = Path(__file__).parents[3] / "kernel"
ATTENTIONS = ("attention", "varlen", "decode")
ALL = (*ATTENTIONS, "stream")

REFUSED_BY_ALL = (
    "arguments: must not be a null pointer",
    "size: must be N, but is N. Use a library and a binding of the same version",
    "max_ctas: must not be negative, but is -1",
)
REFUSED_BY_ATTENTIONS = (
    "dtype: must be 0 (fp16) or 1 (bf16), but is 3",
    "batch: must be from 0 to 1073741824, but is -1",
    "heads: must be from 0 to 1073741824, but is 1073741825",
    "kv_heads: must be from 1 to 1073741824, but is 0",
    "heads: must be a multiple of kv_heads (3), but is 4",
    "scale: must be finite, but is inf",
    "q: must not be a null pointer",
    "out: must be aligned to 16 bytes, but is 8 bytes past a multiple",
    "k: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 130 bytes",
)
REFUSED_BY_ONE = """\
attention 1 workspace: must be aligned to 8 bytes, but is 4 bytes past a multiple
varlen 1 workspace: must be aligned to 32 bytes, but is 16 bytes past a multiple
decode 1 workspace: must be aligned to 16 bytes, but is 8 bytes past a multiple
varlen 1 workspace: must not be a null pointer
decode 1 workspace: must not be a null pointer
varlen 1 workspace_bytes: must be at least 128, but is 127
varlen 1 cu_seqlens_k: must not be a null pointer
decode 1 sq: must be from 1 to 16, but is 17
decode 1 dtype: E4M3 queries need caches of E4M3
decode 1 new_dtype: must be 0 (fp16), 1 (bf16) or 2 (E4M3), but is 3
decode 1 page_table: must not be a null pointer
paged 0
paged 0
paged 0
paged 0
paged 1 page_size: must be from 1 to 1073741824, but is -16
paged 1 pages: must be from 1 to 1073741824, but is 0
paged 1 table_width: must be from 0 to 67108864, but is 134217728
paged 1 page_table: must not be a null pointer
paged 1 head_dim: must be 64, 128 or 256 in pages, but is 56
paged 1 k: the page stride must be a multiple of 16 bytes from 0 to below 2^40, but is 8194 bytes
paged 1 v: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 120 bytes
paged 1 v: the sequence stride must be below 2^33 bytes, but is 17179869184 bytes
paged 1 v: all heads must be within 2^31 elements, but have 2147483712
paged 1 k: must not be a null pointer
paged 0
paged 1 min_queries: must be from 0 to 1073741824, but is -1
varlen 1 min_queries: must be from 0 to 0, but is 1
short 0
short 0
short 0
short 0
short 0
short 1 k: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 120 bytes
short 1 k: must not be a null pointer
ragged 0
ragged 0
ragged 0
ragged 0
ragged 0
gather 0
gather 0
gather 0
gather 0
gather 0
gather 0
gather 0
gather 1 page_size: must be from 0 to 1073741824, but is -1
gather 1 page_size: must be 0 (contiguous), or a power of two from 16 on, unless queries are packed, but is 8
gather 1 total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits
gather 1 k: the page stride must be a multiple of 16 bytes from 0 to below 2^40, but is 8 bytes
gather 1 v: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 120 bytes
gather 1 k: the page stride must be a multiple of 16 bytes from 0 to below 2^40, but is 1099511627776 bytes
gather 1 v: must be aligned to 16 bytes, but is 8 bytes past a multiple
gather 1 pages: must be from 1 to 1073741824, but is 0
gather 0
gather 1 head_dim: must be a multiple of 8 up to 256, but is 36
gather 1 head_dim: no kernel of this build takes 96
gather 1 head_dim: must be a multiple of 8 up to 256, but is 264
decode 1 head_dim: must be a multiple of 16 up to 256 over caches of E4M3, but is 40
ragged 1 cu_seqlens_q: must not be a null pointer
ragged 1 total_q: must be from 0 to 1073741824, but is -1
ragged 1 total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits
ragged 1 total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits
ragged 1 total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits
ragged 1 sq: packed queries times heads per KV head must be at most 128, but are 256
ragged 0
stream 1 count: must not be negative, but is -1
stream 1 y: must not be a null pointer
stream 1 out: must be aligned to 16 bytes, but is 4 bytes past a multiple
"""
COMBINED = """\
combine 1 arguments: must not be a null pointer
combine 0
combine 0
combine 0
combine 1 size: must be N, but is N. Use a library and a binding of the same version
combine 1 splits: must be from 1 to 256, but is 257
combine 1 out_dtype: must be from 0 to 2, but is 3
combine 1 head_dim: must be from 1 to 1073741824, but is 0
combine 1 lse_partial: must not be a null pointer
combine 1 out: must be aligned to 4 bytes, but is 2 bytes past a multiple
combine 1 batch: batch * sequence * heads * blocks of columns must be below 2^31
launched 7
"""
REFUSED_BY_E4M3 = """\
e4m3 0
e4m3 0
e4m3 0
e4m3 0
e4m3 1 size: must be N, but is N. Use a library and a binding of the same version
e4m3 1 head_dim: must be 64, 128 or 256 for E4M3, but is 96
e4m3 0
e4m3 1 transposed: must be from 0 to 1, but is 2
e4m3 0
e4m3 1 block_scales: must be from 0 to 7, but is 8
e4m3 1 heads: must be a multiple of kv_heads (3), but is 4
e4m3 1 sk: must be from 0 to 1073741824, but is -1
e4m3 1 workspace_bytes: must be at least 131200, but is 131199
e4m3 1 workspace: must be aligned to 128 bytes, but is 64 bytes past a multiple
e4m3 1 v: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 120 bytes
e4m3 1 k: the sequence stride must be a multiple of 16 bytes from 0 to below 2^40, but is 8 bytes
e4m3 1 out: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 8 bytes
e4m3 1 q: must not be a null pointer
transpose 0
transpose 1 dtype: must be from 0 to 2, but is 3
transpose 1 head_dim: must be 64, 128 or 256 for E4M3, but is 192
transpose 1 values: must not be a null pointer
"""
REFUSED_BY_PACKED = """\
packed 0
packed 0
packed 0
packed 0
packed 0
packed 1 size: must be N, but is N. Use a library and a binding of the same version
packed 1 head_dim: must be 64, 128 or 256 for E4M3, but is 96
packed 1 heads: must be a multiple of kv_heads (3), but is 4
packed 1 total_k: must be from 0 to 1073741824, but is -1
packed 1 total_k: total_k + 128 * batch must not exceed 2^30, but is 1073742080
packed 1 workspace_bytes: must be at least 131328, but is 131327
packed 1 workspace: must be aligned to 128 bytes, but is 64 bytes past a multiple
packed 1 cu_seqlens_k: must not be a null pointer
packed 1 q: must not be a null pointer
packed 1 v: the head stride must be a multiple of 16 bytes from 0 to below 2^40, but is 120 bytes
packed 1 k: the sequence stride must be below 2^33 bytes, but is 8589934592 bytes
packed 1 out: the sequence stride must be a multiple of 16 bytes from 0 to below 2^40, but is 8 bytes
packed -1 arguments: must not be a null pointer
packed -1 head_dim: must be 64, 128 or 256 for E4M3, but is 72
packed 131328
launched 59
"""
WORKSPACES = """\
varlen -1 arguments: must not be a null pointer
decode -1 arguments: must not be a null pointer
varlen -1 size: must be N, but is N. Use a library and a binding of the same version
decode -1 size: must be N, but is N. Use a library and a binding of the same version
varlen -1 batch: must be from 0 to 1073741824, but is -1
decode -1 batch: must be from 0 to 1073741824, but is -1
varlen 128
"""
"""Decode's size follows, which test_decode_plan.py checks."""


def test_bad_arguments_are_refused_by_name_and_nothing_is_launched(tmp_path: Path) -> None:
    program = tmp_path / "launchers"
    options = [
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{HOST / 'runtime'}",
        f"-I{KERNEL / 'include'}",
        "-x",
        "c++",
    ]
    launchers = [path for path in sorted((KERNEL / "src").glob("*.cu")) if "__global__" not in path.read_text(encoding="utf-8")]
    sources = [HOST / "launchers.cpp", *launchers]
    subprocess.run(["g++", *options, *map(str, sources), "-o", str(program)], check=True, timeout=600)
    output = subprocess.run([program], capture_output=True, text=True, check=True, timeout=600).stdout
    output = re.sub(r"size: must be \d+, but is \d+", "size: must be N, but is N", output)
    taken = "".join(f"{operation} 0\n" for operation in ALL) + "launched 5\n" + COMBINED
    by_all = "".join(f"{operation} 1 {sentence}\n" for sentence in REFUSED_BY_ALL for operation in ALL)
    by_attentions = "".join(f"{operation} 1 {sentence}\n" for sentence in REFUSED_BY_ATTENTIONS for operation in ATTENTIONS)
    expected = taken + by_all + by_attentions + REFUSED_BY_ONE + "launched 41\n" + REFUSED_BY_E4M3 + "launched 51\n"
    expected += REFUSED_BY_PACKED + WORKSPACES
    assert output.startswith(expected)
    operation, size = output.removeprefix(expected).split()
    assert operation == "decode"
    assert int(size) > 0

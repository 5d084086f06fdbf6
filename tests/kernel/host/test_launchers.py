"""What the launchers take and refuse: kernel/src compiled for the host, over a runtime that launches nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

HOST = Path(__file__).parent
KERNEL = Path(__file__).parents[3] / "kernel"
ATTENTIONS = ("attention", "varlen", "decode")
ALL = (*ATTENTIONS, "stream")

REFUSED_BY_ALL = (
    "arguments: is a null pointer",
    "size: not the struct of this ABI version",
    "max_ctas: must not be negative",
)
REFUSED_BY_ATTENTIONS = (
    "dtype: must be 0 (fp16) or 1 (bf16), is 2",
    "batch: must be from 0 to 1073741824, is -1",
    "heads: must be from 0 to 1073741824, is 1073741825",
    "kv_heads: must be from 1 to 1073741824, is 0",
    "heads: 4 query heads are not a multiple of 3 key heads",
    "scale: must be finite",
    "q: is a null pointer",
    "out: must be aligned to 16 bytes",
    "k: the head stride must be a multiple of 16 bytes from 0 to below 2^40, is 130 bytes",
)
REFUSED_BY_ONE = """\
attention 1 workspace: must be aligned to 8 bytes
varlen 1 workspace: must be aligned to 32 bytes
decode 1 workspace: must be aligned to 16 bytes
varlen 1 workspace: must have 128 bytes
decode 1 workspace: is a null pointer
varlen 1 cu_seqlens_k: is a null pointer
decode 1 sq: must be from 1 to 16, is 17
decode 1 page_table: is a null pointer
stream 1 count: must not be negative
stream 1 y: is a null pointer
stream 1 out: must be aligned to 16 bytes
"""
WORKSPACES = """\
varlen -1 arguments: is a null pointer
decode -1 arguments: is a null pointer
varlen -1 size: not the struct of this ABI version
decode -1 size: not the struct of this ABI version
varlen -1 batch: must be from 0 to 1073741824, is -1
decode -1 batch: must be from 0 to 1073741824, is -1
varlen 128
"""
"""And decode's: as many bytes as the plan says (test_decode_plan.py)."""


def test_bad_arguments_are_refused_by_name_and_nothing_is_launched(tmp_path: Path) -> None:
    program = tmp_path / "launchers"
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'runtime'}", f"-I{KERNEL / 'include'}", "-x", "c++"]
    sources = [HOST / "launchers.cpp", *sorted((KERNEL / "src").glob("*.cu"))]
    subprocess.run(["g++", *options, *map(str, sources), "-o", str(program)], check=True, timeout=120)
    said = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    taken = "".join(f"{operation} 0\n" for operation in ALL) + "launched 5\n"
    by_all = "".join(f"{operation} 1 {sentence}\n" for sentence in REFUSED_BY_ALL for operation in ALL)
    by_attentions = "".join(f"{operation} 1 {sentence}\n" for sentence in REFUSED_BY_ATTENTIONS for operation in ATTENTIONS)
    expected = taken + by_all + by_attentions + REFUSED_BY_ONE + "launched 5\n" + WORKSPACES
    assert said.startswith(expected)
    operation, size = said.removeprefix(expected).split()
    assert operation == "decode"
    assert int(size) > 0

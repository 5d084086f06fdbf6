"""Compare the machine code of every entry function of kernel/variants.toml in two revisions of this checkout.

usage: python3 tools/study/same_machine_code.py BASE HEAD [--only REGEX] [--jobs N]

BASE and HEAD are each a git revision or a folder. The pinned toolchain compiles both (`flashcore-ci toolchain install`).
Prints one line per entry function: same, different, or the side on which it is missing. Exit code 1 unless all are the same.

Compared, byte for byte: instructions (`.text`), constants and initialised data of the cubin, sizes of static shared memory
and registers per thread. Not compared: line numbers, debug sections and the names of symbols, which a rename changes.
Cubins are cached by the tokens of what they are made from, so a changed comment compiles nothing.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import os
import re
import sys
import tarfile
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flashcore_ci.adapters import nvcc, process
from flashcore_ci.build import toolchain
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.compiler import host_compiler
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.identity import digest_of

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("FLASHCORE_CI_HOME") or Path.home() / ".cache/flashcore-ci")
INCLUDES = ("kernel/include",)
SECONDS = 600.0
_COMPARED = re.compile(r"\.(text|nv\.constant|nv\.global|nv\.shared|nv\.local)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """A cached cubin, by the digest of its file."""

    digest: str
    schema: Literal["study-cubin-v1"] = "study-cubin-v1"


def machine_code(cubin: bytes) -> str:
    """Digest of what the hardware reads of a cubin. The top byte of ``sh_info`` counts the registers of a text section."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - installed with the extra that compiles

    parts = []
    for section in ELFFile(io.BytesIO(cubin)).iter_sections():
        if found := _COMPARED.match(section.name):
            data = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
            registers = section["sh_info"] >> 24 if found[1] == "text" else 0
            parts.append((found[1], section["sh_size"], registers, hashlib.sha256(data).hexdigest()))
    return digest_of(parts)


def compiled(root: Path, symbol: str, tools: toolchain.Toolchain) -> str:
    """Digest of the machine code of one entry function of the checkout in ``root``."""
    source, sources, cache = f"kernel/instantiations/{symbol}.cu", Sources(root), Cache(folder=HOME / "study")
    key = digest_of("cubin", tools.digest, nvcc.OPTIONS, source, sources.c_digest(sources.closure(source, INCLUDES)))
    if cache.load(Cubin, key) is None:
        with cache.workspace() as work:
            paths = {"source": source, "target": work / "unit.o", "dependencies": work / "unit.d", "keep": work}
            argv = nvcc.compile_argv(tools.nvcc, includes=INCLUDES, **paths)
            environment = {**host_compiler().environment, "TMPDIR": str(work)}
            done = process.run(["nice", *argv], logs=work, name="nvcc", timeout=SECONDS, cwd=root, env=environment)
            if done.returncode:
                raise SystemExit(f"{root / source}: {done.error_text().strip()[:2000]}")
            cubin = work / f"{symbol}.cubin"
            cache.keep(key, cubin, Cubin(digest=hashlib.sha256(cubin.read_bytes()).hexdigest()))
    return machine_code(cache.product(key).read_bytes())


def side(name: str, folder: Path, only: str, tools: toolchain.Toolchain, jobs: int) -> dict[str, str]:
    """Digest by entry function of one revision (unpacked into ``folder``) or folder."""
    root = Path(name)
    if not root.is_dir():
        folder.mkdir()
        argv = ["git", "-C", str(ROOT), "archive", "-o", str(folder / "kernel.tar"), name, "kernel"]
        if process.run(argv, logs=folder, name="git", timeout=SECONDS).returncode:
            raise SystemExit(f"{name} is neither a folder nor a revision of {ROOT}")
        with tarfile.open(folder / "kernel.tar") as archive:
            archive.extractall(folder, filter="data")
        root = folder
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    symbols = [entry["symbol"] for group in table.values() for entry in group["entries"] if re.search(only, entry["symbol"])]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        digests = list(pool.map(functools.partial(compiled, root.resolve(), tools=tools), symbols))
    return dict(zip(symbols, digests, strict=True))


def main(argv: list[str]) -> int:
    """Compare two sides and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="git revision or folder")
    parser.add_argument("head", help="git revision or folder")
    parser.add_argument("--only", default="", help="only entry functions whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    args = parser.parse_args(argv)
    tools = toolchain.find(HOME)
    if tools is None:
        raise SystemExit("the CUDA tools are not installed: run `flashcore-ci toolchain install`")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = side(args.base, folder / "base", args.only, tools, args.jobs)
        head = side(args.head, folder / "head", args.only, tools, args.jobs)
    answers = {}
    for symbol in {**base, **head}:
        missing = "missing in BASE" if symbol not in base else "missing in HEAD" if symbol not in head else ""
        answers[symbol] = missing or ("same" if base[symbol] == head[symbol] else "different")
    sys.stdout.writelines(f"{symbol}: {answer}\n" for symbol, answer in answers.items())
    return 0 if answers and set(answers.values()) == {"same"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

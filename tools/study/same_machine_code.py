"""Compare the machine code of the kernel's entry functions in two revisions or folders. Exit code 1 unless all are the same.

The pinned toolchain compiles both sides. Compared are instructions, constants, initialised data, static shared memory and registers
per thread, but not line numbers and names. Cubins are cached by the tokens of their sources.
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

from elftools.elf.elffile import ELFFile

from flashcore_ci.adapters import nvcc, process
from flashcore_ci.build import toolchain
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.compiler import find_host_compiler
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.identity import digest_of

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("FLASHCORE_CI_HOME") or Path.home() / ".cache/flashcore-ci")
INCLUDES = ("kernel/include",)
SECONDS = 600.0
_REGISTERS = re.compile(rb"\x04\x2f\x08\x00.{4}(.{4})", re.DOTALL)  # attribute 0x2F of `.nv.info`: symbol, register count
_COMPARED = re.compile(r"\.(text|nv\.constant|nv\.global|nv\.shared|nv\.local)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """The digest of a cached cubin."""

    digest: str


def machine_code(cubin: bytes) -> str:
    """Digest what the GPU uses of a cubin."""
    parts: list[object] = []
    for section in ELFFile(io.BytesIO(cubin)).iter_sections():
        data = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
        if section.name == ".nv.info":
            parts.append([count.hex() for count in _REGISTERS.findall(data)])
        elif found := _COMPARED.match(section.name):
            parts.append((found[1], section["sh_size"], hashlib.sha256(data).hexdigest()))
    return digest_of(parts)


def compiled(root: Path, symbol: str, tools: toolchain.Toolchain) -> str:
    """Compile one entry function of the checkout in ``root`` and digest its machine code."""
    source, sources, cache = f"kernel/instantiations/{symbol}.cu", Sources(root), Cache(folder=HOME / "study")
    key = digest_of("cubin", tools.digest, nvcc.OPTIONS, source, sources.c_digest(sources.closure(source, INCLUDES)))
    if cache.load(Cubin, key) is None:
        with cache.workspace() as work:
            target, rule = work / "unit.o", work / "unit.d"
            argv = nvcc.compile_argv(tools.nvcc, source=source, includes=INCLUDES, target=target, dependencies=rule, keep=work)
            environment = {**find_host_compiler().environment, "TMPDIR": str(work)}
            done = process.run(["nice", *argv], logs=work, name="nvcc", timeout=SECONDS, cwd=root, env=environment)
            if done.returncode:
                raise SystemExit(f"{root / source}: {done.error_text().strip()[:2000]}")
            made = work / f"{symbol}.cubin"
            cache.keep(key, made, Cubin(digest=hashlib.sha256(made.read_bytes()).hexdigest()))
    return machine_code(cache.product_path(key).read_bytes())


def side(name: str, folder: Path, only: str, tools: toolchain.Toolchain, jobs: int) -> dict[str, str]:
    """Return the digest of every entry function of a folder, or of a revision, which is unpacked into ``folder``."""
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
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--only", default="", help="only entry functions whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    args = parser.parse_args(argv)
    tools = toolchain.find(HOME)
    if tools is None:
        parser.error("the CUDA tools are not installed. fix: flashcore-ci toolchain install")
    with tempfile.TemporaryDirectory() as folder:
        base = side(args.base, Path(folder, "base"), args.only, tools, args.jobs)
        head = side(args.head, Path(folder, "head"), args.only, tools, args.jobs)
    answers = {symbol: "same" if head.get(symbol) == digest else "different" for symbol, digest in base.items()}
    answers |= {symbol: f"only in {args.base if symbol in base else args.head}" for symbol in base.keys() ^ head.keys()}
    sys.stdout.writelines(f"{symbol}: {answer}\n" for symbol, answer in answers.items())
    return 0 if set(answers.values()) == {"same"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

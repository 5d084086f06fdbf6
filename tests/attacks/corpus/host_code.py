"""Host code next to a kernel that changes while its digest, made from cudafe++'s output, stays."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import nvcc
from flashcore_ci.build.system_files import SystemFiles
from flashcore_ci.build.tokens import canonical

MODULE = "_79e1d03c_4_a_cu_factors"
HEAD = '# 1 "kernel/a.cu"\nint first;\n# 1 "/usr/include/stdio.h" 3\nint printf();\n# 9 "{marker}"\n{code}\n'


def extract(folder: Path, text: str) -> str:
    system = SystemFiles(root=folder, toolchain=folder / "home/cuda", folders=("/usr/include",))
    return canonical(nvcc.parse_host_code(text, system.is_ours, MODULE))


def pair(name: str, base: str, head: str, marker: str = "kernel/a.cu") -> Attack:
    def attempt(folder: Path) -> bool:
        path = marker.format(root=folder)
        return extract(folder, HEAD.format(marker=path, code=base)) == extract(folder, HEAD.format(marker=path, code=head))

    return Attack(name=name, attempt=attempt)


def member(rng: random.Random) -> Attack:
    """Give two functions names that differ after something like a module's id, or hide a change in a header's path."""
    digits = "".join(rng.choice("0123456789abcdef") for _ in range(8))
    names = [f"_GLOBAL__N__{digits}_{rng.randint(0, 10**9)}{side}" for side in "ab"]
    if rng.random() < 0.5:
        return pair("a name like a module's id", f"int x() {{ return {names[0]}(); }}", f"int x() {{ return {names[1]}(); }}")
    marker = rng.choice(("kernel/x/../{}.h", "./kernel/{}.h", "{{root}}/kernel/{}.h", "kernel//{}.h", "../{}.h")).format(
        f"h{digits}"
    )
    return pair("a header by another path", f"int x = {rng.randint(0, 9)};", "int x = 10;", marker)


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Match any module's id with all that follows, and only the paths that the scan of #include knows."""
    real, anything = nvcc.parse_host_code, re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\w+")
    known = ("kernel/a.cu", "kernel/a.h")
    patch.setattr(nvcc, "parse_host_code", lambda text, _, module: anything.sub("", real(text, known.__contains__, module)))


FAST, SLOW = "int blocks() { return 132; }", "int blocks() { return 1; }"
CLASS = AttackClass(
    name="host code that no digest sees",
    attacks=(
        pair("two functions with the hash of a module", "f(_GLOBAL__N__00000000_fast);", "f(_GLOBAL__N__00000000_slow);"),
        pair("a call into another module's namespace", "_GLOBAL__N__11111111_b_cu::f();", "_GLOBAL__N__11111111_c_cu::f();"),
        pair("a header in a parent folder", FAST, SLOW, "kernel/src/../include/b.h"),
        pair("a header behind a dot", FAST, SLOW, "./kernel/include/b.h"),
        pair("a header by its absolute path", FAST, SLOW, "{root}/kernel/include/b.h"),
        pair("a header with two slashes", FAST, SLOW, "kernel//a.h"),
        pair("a header through a folder of links", FAST, SLOW, "linked/include/b.h"),
        pair("a header outside of the checkout by a relative path", FAST, SLOW, "../outside/b.h"),
        pair("a file that a line directive invents", FAST, SLOW, "no/such/file.cu"),
    ),
    member=member,
    mutant=mutant,
)

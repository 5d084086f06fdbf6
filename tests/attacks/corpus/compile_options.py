"""A text of a subject or a suite that becomes an option of the compiler, or that no digest covers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from factories import make_suite

from flashcore_ci.adapters import nvcc
from flashcore_ci.collect import describe
from flashcore_ci.model import options
from flashcore_ci.model.options import CompileOptions

FLAGS = (
    "-w", "-diag-suppress=177", "-Xptxas=-v", "-Xptxas -O0", "--keep-dir=/tmp", "-ccbin=/tmp/gcc", "--options-file=evil", "-optf=evil",
    "@evil", "-o evil.o", "-include=evil.h", "-I/tmp", "-isystem /tmp", "-maxrregcount=255", "-G", "-rdc=true", "-dlto", "-cubin",
    "--compiler-options=-w", "-Wl,-z,now", "-MF=x", "-dryrun", "-allow-unsupported-compiler", "-noprof", "-U__CUDACC__", "--run",
)  # fmt: skip
VALUES = (
    "__LINE__",
    "__FILE__",
    "__TIME__",
    "__COUNTER__",
    "__DATE__",
    "__TIMESTAMP__",
    "__BASE_FILE__",
    "__INCLUDE_LEVEL__",
    "_LINE",
)


def attack(name: str, key: str, value: Any) -> Attack:
    """It fools the gate if the text reaches the command line."""

    def attempt(_folder: Path) -> bool:
        try:
            build = describe._with_options({"compile": {"architectures": ["sm_90a"], key: value}}, make_suite())
        except describe.OptionsError:
            return False
        text = value[0] if isinstance(value, list) else str(value)
        return any(text in option for option in nvcc.options_of(CompileOptions(**build["compile"])))

    return Attack(name=name, attempt=attempt)


def member(rng: random.Random) -> Attack:
    """A flag, or a value that the compiler replaces, in a definition."""
    name = "".join(rng.choice("ABCXYZ_09") for _ in range(rng.randint(1, 8)))
    joint = rng.choice((" ", ",", "\n", "\t", "=1 ", "=1,", '="', "=(", ";"))
    if rng.random() < 0.5:
        return attack("a flag in a definition", "defines", [f"A{name}{joint}{rng.choice(FLAGS)}"])
    return attack("a value without a digest", "defines", [f"A={rng.choice(VALUES)}{rng.choice(('', '__', '_A'))}"])


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Believe every value."""
    patch.setattr(options, "mistakes", lambda _given: iter(()))


CLASS = AttackClass(
    name="an option in a text",
    attacks=(
        *(attack(f"a definition {flag}", "defines", [flag]) for flag in FLAGS),
        *(attack(f"a flag after a definition: {flag}", "defines", [f"A=1 {flag}"]) for flag in FLAGS),
        *(attack(f"a definition of {value}", "defines", [f"WHERE={value}"]) for value in VALUES),
        *(
            attack(f"another {name}", "defines", [name])
            for name in ("__CUDA_ARCH__=800", "__global__=static", "_Pragma", "__asm__=")
        ),
        attack("a macro with arguments", "defines", ["AT(x)=__LINE__"]),
        attack("a name with a command", "defines", ["A=$(touch x)"]),
        attack("a flag after the standard", "standard", "c++17 -w"),
        attack("a flag for the standard", "standard", "-w"),
        attack("a text for the level", "optimization", "0 -w"),
        attack("a level that the compiler does not know", "optimization", "fast"),
    ),
    member=member,
    mutant=mutant,
)

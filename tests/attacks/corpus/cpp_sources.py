"""Two C++ programs that compile differently and have the same digest, so that the second is never timed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import naive_digests
from attacking import Attack, AttackClass

Pair = tuple[str, str]
Lie = Callable[[random.Random], Pair]
GLUED = ("--", "++", "&&", "||", "<<", ">>", "==", "->", "::", "+=", "<=", "!=", "/*", "//", "##", "<:")
POSITIONS = (
    "__LINE__",
    "__builtin_LINE()",
    "__COUNTER__",
    "__TIME__",
    "__DATE__",
    "__TIMESTAMP__",
    "__FILE__",
    "__INCLUDE_LEVEL__",
)
OTHERS = ("__BASE_FILE__", "__FILE_NAME__", "__builtin_FILE()", "__builtin_FUNCTION()", "__builtin_source_location()")
BLANKS = ("\u00a0", "\u2028", "\u0085", "\x1c", "\x1f", "\u3000", "\u2003")


def pair(name: str, base: str, head: str) -> Attack:
    def attempt(folder: Path) -> bool:
        return naive_digests.look_alike(folder, {"a.cu": base.encode()}, {"a.cu": head.encode()})

    return Attack(name=name, attempt=attempt)


def files(name: str, base: dict[str, bytes], head: dict[str, bytes]) -> Attack:
    def attempt(folder: Path) -> bool:
        return naive_digests.look_alike(folder, base, head)

    return Attack(name=name, attempt=attempt)


def word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 6)))


def code(rng: random.Random) -> str:
    return f"int {word(rng)} = {rng.randint(2, 99)};\n"


def spliced_comment(rng: random.Random) -> Pair:
    blanks, hidden = rng.choice((" ", "\t", "  ", " \t ")), code(rng)
    return f"// {word(rng)} \\{blanks}\n{hidden}", f"// {word(rng)}\n{hidden}"


def glued(rng: random.Random) -> Pair:
    operator, left, right = rng.choice(GLUED[:12]), word(rng), word(rng)
    return f"int x = {left} {operator[0]} {operator[1]}{right};\n", f"int x = {left} {operator[0]}\\\n{operator[1]}{right};\n"


def split_name(rng: random.Random) -> Pair:
    left, right = word(rng), word(rng)
    return f"{left} {right}(1);\n", f"{left}\\\n{right}(1);\n"


def stringized(rng: random.Random) -> Pair:
    left, right, operator = word(rng), word(rng), rng.choice("+-*/%,<>=")
    define = "#define STR(x) #x\n"
    forms = [f"{left}{a}{operator}{b}{right}" for a in ("", " ") for b in ("", " ")]
    first, second = rng.sample(forms, 2)
    return f"{define}const char* s = STR({first});\n", f"{define}const char* s = STR({second});\n"


def position(rng: random.Random) -> Pair:
    name = rng.choice((*POSITIONS, *OTHERS))
    return f"auto x = {name};\n", f"// {word(rng)}\n\nauto x = {name};\n"


def pasted(rng: random.Random) -> Pair:
    name = rng.choice(("__LINE__", "__COUNTER__", "__TIME__", "__DATE__", "__FILE__"))
    cut = rng.randint(2, len(name) - 2)
    use = f"#define CAT(a, b) a##b\nauto x = CAT({name[:cut]}, {name[cut:]});\n"
    return use, f"// {word(rng)}\n{use}"


def swallowed(rng: random.Random) -> Pair:
    opener = rng.choice(("don't", 'say "', "it's", "'"))
    return tuple(f"#if 0\n{opener} /*\n#endif\n{text}// */\n" for text in (code(rng), code(rng)))


def odd_blank(rng: random.Random) -> Pair:
    blank, name = rng.choice(BLANKS), word(rng)
    return f"int {name};\n", f"int{blank}{name};\n"


def header_comment(rng: random.Random) -> Pair:
    first, second = word(rng), word(rng) + "x"
    return f"#include <{first[0]}//{first}.h>\n", f"#include <{first[0]}//{second}.h>\n"


def line_marker(rng: random.Random) -> Pair:
    marker = rng.choice(('#line {} "/usr/include/{}.h"\n', '# {} "/usr/include/{}.h"\n')).format(rng.randint(1, 99), word(rng))
    text = f"{marker}{code(rng)}"
    return text, f"// {word(rng)}\n{text}"


LIES: tuple[Lie, ...] = (
    spliced_comment, glued, split_name, stringized, position, pasted, swallowed, odd_blank, header_comment, line_marker
)  # fmt: skip


def member(rng: random.Random) -> Attack:
    """Hide one lie between two random statements."""
    lie = rng.choice(LIES)
    base, head = lie(rng)
    before, after = code(rng), code(rng)
    return pair(lie.__name__, before + base + after, before + head + after)


LINE = "auto x = __LINE__;\n"
CLASS = AttackClass(
    name="C++ sources that look alike",
    attacks=(
        pair("a comment that ends in backslash and blank", "// a \\ \nint slow;\n", "// a\nint slow;\n"),
        pair("a comment that ends in backslash and tab", "// a \\\t\nint slow;\n", "// a\nint slow;\n"),
        pair("a spliced decrement", "int y = a - -n;\n", "int y = a -\\\n-n;\n"),
        pair("a spliced scope", "a: :b();\n", "a:\\\n:b();\n"),
        pair("a spliced number", "f(1 2);\n", "f(1\\\n2);\n"),
        pair("a spliced name", "a b;", "a\\\nb;"),
        pair("a stringized sum", "#define S(x) #x\nS(a+b)\n", "#define S(x) #x\nS(a + b)\n"),
        pair("a stringized assertion of the system", "assert(a+b);\n", "assert(a +b);\n"),
        *(pair(f"a comment above {name}", f"auto x = {name};\n", f"// c\nauto x = {name};\n") for name in (*POSITIONS, *OTHERS)),
        pair("__LINE__ by pasting", f"#define C(a, b) a##b\n{LINE[:9]}C(__LI, NE__);", f"\n#define C(a, b) a##b\n{LINE[:9]}C(__LI, NE__);"),
        pair("__LINE__ by pasting its underscores", "C(_, _LINE__)\n", "\nC(_, _LINE__)\n"),
        pair("__LINE__ in two physical lines", "int x = __LI\\\nNE__;", "\nint x = __LI\\\nNE__;"),
        pair("an own handler of failed assertions", "void __assert_fail(int);\n", "\nvoid __assert_fail(int);\n"),
        pair("an open quote in skipped text", "#if 0\ndon't /*\n#endif\nint fast;\n// */", "#if 0\ndon't /*\n#endif\nint slow;\n// */"),
        pair("a trigraph at the end of a comment", "// a ??/\nint slow;\n", "// a\nint slow;\n"),
        pair("a comment mark in a header's name", "#include <sys//a.h>\n", "#include <sys//b.h>\n"),
        pair("a line marker of a system header", '# 1 "/usr/include/a.h"\nint a;\n', '\n# 1 "/usr/include/a.h"\nint a;\n'),
        pair("a line directive", "#line 9\nint a;\n", "\n#line 9\nint a;\n"),
        pair("std::source_location", "#include <experimental/source_location>\n", "\n#include <experimental/source_location>\n"),
        *(pair(f"a blank that is none: {ord(blank):#x}", "int slow;\n", f"int{blank}slow;\n") for blank in BLANKS),
        files("bytes that are not UTF-8", {"a.cu": b'f("\xff");'}, {"a.cu": b'f("\xfe");'}),
        files("a comment that tells two headers apart",
              {"a.cu": b'#include "b.h"\n#include "c.h"\n', "b.h": b"#pragma once\nX\n", "c.h": b"#pragma once // c\nX\n"},
              {"a.cu": b'#include "b.h"\n#include "c.h"\n', "b.h": b"#pragma once\nX\n", "c.h": b"#pragma once\nX\n"}),
        *(files(f"a header by {name}", {"a.cu": text, "include/b.h": b"int fast;"}, {"a.cu": text, "include/b.h": b"int slow;"})
          for name, text in (("digraph", b'%:include "b.h"\n'), ("#import", b'#import "b.h"\n'), ("a macro", b'#define H "b.h"\n#include H\n'),
                             ("#include_next", b"#include_next <b.h>\n"), ("#embed", b'int t[] = {\n#embed "include/b.h"\n};\n'),
                             ("an absolute path", b'#include "/tmp/include/b.h"\n'), ("a path outside", b'#include "../../../x/b.h"\n'))),
        *(files(f"the presence of a header by {name}", {"a.cu": text}, {"a.cu": text, "include/b.h": b"int slow;"})
          for name, text in (("a macro", b'#define H "b.h"\n#if __has_include(H)\n#endif\n'), ("a pasted name", b"#if C(__has_inc, lude)(<b.h>)\n#endif\n"),
                             ("a wrapper", b"#define HAS(x) __has_include(x)\n#if HAS(<b.h>)\n#endif\n"), ("#embed", b"#if __has_embed(<b.h>)\n#endif\n"))),
    ),
    member=member,
    mutant=naive_digests.undo,
)  # fmt: skip

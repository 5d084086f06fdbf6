"""Two Python programs that act differently and have the same digest, so that the second is never measured."""

from __future__ import annotations

import random
from pathlib import Path

import naive_digests
from attacking import Attack, AttackClass

SEES_LINES = (
    "import sys\nx = sys._getframe().f_lineno\n",
    "def f(): pass\nx = f.__code__.co_firstlineno\n",
    "import inspect\nx = inspect.getsource(inspect.currentframe())\n",
    "import linecache\nx = linecache.getlines(__file__)\n",
    "import traceback\nx = traceback.extract_stack()\n",
    "try: 1 / 0\nexcept Exception as e: x = e.__traceback__.tb_lineno\n",
    "x = __loader__.get_source(__name__)\n",
    "x = getattr(frame, 'f_lineno')\n",
    "import tokenize\nx = list(tokenize.open(__file__))\n",
    "import sys\nsys.settrace(lambda *a: None)\n",
    "import sys\nsys.setprofile(print)\n",
    "import logging\nx = logging.getLogger().findCaller()\n",
    "import warnings\nwarnings.warn('x')\n",
    "x = f.__code__.co_lines()\n",
    "x = generator.gi_frame.f_back\n",
    "import tracemalloc\n",
)


def pair(name: str, base: bytes, head: bytes) -> Attack:
    def attempt(folder: Path) -> bool:
        return naive_digests.look_alike(folder, {"b.py": base}, {"b.py": head}, python=True)

    return Attack(name=name, attempt=attempt)


def word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 6)))


def hidden_line(rng: random.Random) -> tuple[str, str]:
    name = word(rng)
    return f"{name} = 1  # {word(rng)}\n", f"{name} = 1  # {word(rng)}\r{name} = {rng.randint(2, 99)}\n"


def continued(rng: random.Random) -> tuple[str, str]:
    name, between = word(rng), rng.choice(("\n", f"# {word(rng)}\n", "   \n", "\n\n"))
    return f"{name} = 1 \\\n-{name}\n", f"{name} = 1 \\\n{between}-{name}\n"


def nested_quotes(rng: random.Random) -> tuple[str, str]:
    name = word(rng)
    return tuple(f'{name} = f"{{d["# {word(rng)}"]}}"\n' for _ in range(2))


def seen_line(rng: random.Random) -> tuple[str, str]:
    text = rng.choice(SEES_LINES)
    return text, f"# {word(rng)}\n" * rng.randint(1, 9) + text


def member(rng: random.Random) -> Attack:
    """Hide one lie between two random statements, or name an encoding."""
    if rng.random() < 0.2:
        encoding = rng.choice(("latin-1", "cp1252", "utf-7", "utf-16", "iso8859-15", "koi8-r", "rot13"))
        text = f"x = '{word(rng)}\u00e9'\n"
        return pair(f"the encoding {encoding}", text.encode(), f"# coding: {encoding}\n{text}".encode())
    lie = rng.choice((hidden_line, continued, nested_quotes, seen_line))
    base, head = lie(rng)
    before, after = f"{word(rng)} = 1\n", f"{word(rng)} = 2\n"
    return pair(lie.__name__, (before + base + after).encode(), (before + head + after).encode())


CLASS = AttackClass(
    name="Python sources that look alike",
    attacks=(
        pair("code after a lone carriage return", b"x = 1  # a\n", b"x = 1  # a\rx = 2\n"),
        pair("code after two carriage returns", b"x = 1  # a\n", b"x = 1  # a\r\rx = 2\n"),
        pair("an encoding in which a comment is code", b"x = 1\n", b"# coding: utf-7\n# +AAo-x = 2\nx = 1\n"),
        pair(
            "an encoding in the second line",
            b"x = '\xc3\xa9'\n",
            b"#!/bin/python\n# vim: set fileencoding=latin-1 :\nx = '\xc3\xa9'\n",
        ),
        pair("an encoding that begins like utf-8", b"x = '\xc3\xa9'\n", b"# coding=utf8_sig_x\nx = '\xc3\xa9'\n"),
        pair("two encodings in a comment", b"x = '\xc3\xa9'\n", b"# coding: latin-1 coding: utf-8\nx = '\xc3\xa9'\n"),
        pair("bytes that are not UTF-8", b"x = '\xff'\n", b"x = '\xfe'\n"),
        pair("an empty line after a backslash", b"x = 1 \\\n-y\n", b"x = 1 \\\n\n-y\n"),
        pair("a comment after a backslash", b"x = 1 \\\n-y\n", b"x = 1 \\\n# c\n-y\n"),
        pair("a formatted string of Python 3.12", b'x = f"{d["# a"]}"\n', b'x = f"{d["# b"]}"\n'),
        pair("a raw formatted string of Python 3.12", b'x = rf"{d["# a"]}"\n', b'x = rf"{d["# b"]}"\n'),
        *(pair(f"a comment above {text.splitlines()[-1]}", text.encode(), f"# c\n{text}".encode()) for text in SEES_LINES),
    ),
    member=member,
    mutant=naive_digests.undo,
)

import time

import pytest

from flashcore_ci.build import python_text

REFUSED = [
    ("x = 1\ry = 2", "carriage return"),
    ("x = 1\r\r\ny = 2", "carriage return"),
    ("# c\rx = 2\n", "carriage return"),
    ("\ufeffx = 1", "byte order mark"),
    ("x = 1\0", "control character"),
    ("\fx = 1", "control character"),
    ("# -*- coding: utf-7 -*-\nx = 1", "encoding"),
    ("#!/bin/python\n# vim: set fileencoding=latin-1 :\nx = 1", "encoding"),
    ("# coding: utf-8x\n", "encoding"),
    ("# coding: cp1252 coding: utf-8\n", "encoding"),
    ("x = 1 \\ \ny = 2", "backslash"),
    ("if a:\n  \\\n    b = 1", "only a backslash"),
    ("x = 'a\n", "complete string"),
    ('x = """a\n', "complete string"),
    ("""x = f"{d["a"]}" """, "versions of Python"),
    ("""x = f"{d['a' + "']}" """, "versions of Python"),
    ("""x = f"{x:'} {y['}" """, "versions of Python"),
    ("""x = f"{'\\n'.join(a)}" """, "versions of Python"),
    ('x = f"""{a # c\n}"""', "versions of Python"),
    ("x = rf'{a'", "versions of Python"),
    ("x = t'{a'", "versions of Python"),
]


def test_comments_empty_lines_and_blanks_at_line_ends_do_not_count():
    left = '# -*- coding: utf-8 -*-\n\ndef f(x):  # why\n\n    """doc # """\n    return (x +   \n# c\n            1)\r\n'
    right = 'def f(x):\n    """doc # """\n    return (x +\n            1)'
    assert python_text.canonical(left) == right
    assert python_text.find_problem(left) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('"""doc"""', '"""other"""'),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("f'{a}  {b}'", "f'{a} {b}'"),
        ("f'{a:>{w}}'", "f'{a:<{w}}'"),
        ("x = 1", "x = 1.0"),
        ("x = 1 \\\n\n-y", "x = 1 \\\n-y"),
        ("x = 1 \\\n# c\n-y", "x = 1 \\\n-y"),
        ("x = '''a\n\nb'''", "x = '''a\nb'''"),
        ("x = '# a'", "x = '# b'"),
        ("x = 1\x0c", "x = 1"),
        ("x = '\u2028# a'", "x = '\u2028# b'"),
    ],
)
def test_code_and_docstrings_count(left, right):
    assert python_text.canonical(left) != python_text.canonical(right)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_could_make_two_programs_look_alike_is_refused(text, message):
    found = python_text.find_problem(text)
    assert found is not None
    assert message in found[1]


@pytest.mark.parametrize(
    "text",
    [
        """f'{a!r:>{width}} {b["c"]} {{}} {x:#06x} {y[1:2]}'""",
        """f"{p['n']!r} {', '.join(map(str, c))}" """,
        "x = [1, \\\n 2]",
        "def f(): 'it\\'s'",
        "# decoding the tensor\nx = 1",
    ],
)
def test_ordinary_code_is_not_refused(text):
    assert python_text.find_problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "sys._getframe()",
        "f.__code__.co_firstlineno",
        "import inspect",
        "getattr(x, 'tb_lineno')",
        "@torch.jit.script",
        "from numba import njit",
    ],
)
def test_code_that_can_see_lines_is_known(text):
    assert python_text.sees_lines(text)
    assert not python_text.sees_lines("def outline(): return frame + jitter")
    assert not python_text.sees_lines("# no JIT is used here\nx = no_jit")


@pytest.mark.parametrize("piece", ['"""', '\\"""', '"\\"', "'", "f'{", "f'{{'", "# coding:", "\\\n", "x=f'{a:{b}}'", "\n "])
def test_damaged_sources_take_linear_time(piece):
    text = piece * (100_000 // len(piece))
    began = time.process_time()
    python_text.canonical(text)
    python_text.find_problem(text)
    assert time.process_time() - began < 5

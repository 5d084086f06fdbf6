import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.build import tokens

SAME = [
    ("int a = 1; // why\n", "int a=1;"),
    ("int/* x */a;", "int a;"),
    ("f(\n  x,\n  y);", "f(x, y);"),
    ("#define F(x) x // c\nint y;", "#define F(x) x\nint y;"),
    ("#define F \\\n  1\n", "#define F 1\n"),
    ("// one \\\n still the comment\nint a;", "int a;"),
    ("a /* // */ + b", "a + b"),
]
DIFFERENT = [
    ("a + +b", "a ++b"),
    ("int ab;", "int a b;"),
    ("#define F (x)\n", "#define F(x)\n"),
    ("#define F\n1", "#define F 1\n"),
    ('"a  b"', '"a b"'),
    ('"// a"', '"// b"'),
    ('R"x(// a)x"', 'R"x(// b)x"'),
    ('R"(a\n// b)"', 'R"(a)"'),
    ("'\"'; // a\"", "'\\''; // a\""),
    ("1'000", "1000"),
    ("x = 1;", "x = 2;"),
    ('u8"a"', '"a"'),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_comments_and_blanks_do_not_count(left, right):
    assert tokens.c_tokens(left) == tokens.c_tokens(right)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_everything_else_counts(left, right):
    assert tokens.c_tokens(left) != tokens.c_tokens(right)


@given(st.text(alphabet="ab1'\"\\/*#(R \n", max_size=40))
def test_no_character_but_blanks_and_comments_is_lost(text):
    kept = [word for kind, word in tokens._scan(text) if kind not in ("comment", "blank", "newline")]
    assert "".join(word for _, word in tokens._scan(text)) == text
    assert [token for token in tokens.c_tokens(text) if token.strip()] == [word for word in kept if word.strip()]


def test_includes():
    text = """
    #include <system/a.h>
    #  include "own.h"   // really
    // #include "not.h"
    /* #include "neither.h"
    #include "nor.h" */
    #if 0
    #include_next "maybe.h"
    #endif
    #inc\\
lude "spliced.h"
    """
    assert tokens.includes(text) == (("system/a.h", False), ("own.h", True), ("maybe.h", True), ("spliced.h", True))


def test_python_comments_and_blank_lines_do_not_count():
    left = '# c\n\ndef f(x):  # why\n\n    """doc"""\n    return (x +\n            1)\n'
    right = 'def f(x):\n  """doc"""\n  return (x + 1)'
    assert tokens.python_tokens(left) == tokens.python_tokens(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('"""doc"""', '"""other"""'),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("f'{a}  {b}'", "f'{a} {b}'"),
        ("f'{a:>{w}}'", "f'{a:<{w}}'"),
        ("x = 1", "x = 1.0"),
    ],
)
def test_python_code_and_docstrings_count(left, right):
    assert tokens.python_tokens(left) != tokens.python_tokens(right)


def test_formatted_strings_are_one_token_in_every_python():
    assert tokens.python_tokens("x = f'a{b + f\"{c}\"}d'") == ("x", "=", "f'a{b + f\"{c}\"}d'", "<NEWLINE>")


def test_what_is_no_python_counts_as_it_is():
    assert tokens.python_tokens("def (") == ("def (",)

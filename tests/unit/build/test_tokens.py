import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.build import tokens

SAME = [
    ("int a = 1; // why\n", "int a = 1;"),
    ("int/* x */a;", "int a;"),
    ("f(\n  x,\n  y);", "f( x, y);"),
    ("#define F(x) x // c\nint y;", "#define F(x) x\nint y;"),
    ("#define F \\\n  1\n", "#define F 1\n"),
    ("// one \\\n still the comment\nint a;", "int a;"),
    ("a /* // */ + b", "a + b"),
    ("int a;\r\nint b;", "int a;\nint b;"),
    ("a /* x \n y */ b", "a b"),
    ("#define F /* x \n y */ 1\nint a;", "#define F 1\nint a;"),
    ("a -\\\n-n", "a --n"),
    ("/* c */ #define F\n1", "#define F\n1"),
]
DIFFERENT = [
    ("a + +b", "a ++b"),
    ("a - -n", "a -\\\n-n"),
    ("STR(a +b)", "STR(a+b)"),
    ("int ab;", "int a b;"),
    ("#define F (x)\n", "#define F(x)\n"),
    ("#define F\n1", "#define F 1\n"),
    ("a\n#define F", "a #define F"),
    ('"a  b"', '"a b"'),
    ('"// a"', '"// b"'),
    ('R"x(// a)x"', 'R"x(// b)x"'),
    ("'\"'; // a\"", "'\\''; // a\""),
    ("1'000", "1000"),
    ("x = 1;", "x = 2;"),
    ('u8"a"', '"a"'),
    ("int a\u00a0b;", "int a b;"),
]
REFUSED = [
    ("// c \\ \nint a;", 1, "blanks after the backslash"),
    ("int a;\n// c \\\t\nint a;", 2, "blanks after the backslash"),
    ("int a; // c \\ ", 1, "blanks after the backslash"),
    ("int a;\rint b;", 1, "carriage return"),
    ("int a;\r\r\nint b;", 1, "carriage return"),
    ("\ufeffint a;", 1, "byte order mark"),
    ("int a;\n\0", 2, "control character"),
    ("int\fa;", 1, "control character"),
    ("int\va;", 1, "control character"),
    ("// ??/\nint a;", 1, "trigraph"),
    ("int a = 1;\nint b = __LINE__;", 2, "__LINE__"),
    ("int b = __LI\\\nNE__;", 1, "__LINE__"),
    ("// c \\\n c \\\n c\nint b = __LINE__;", 4, "__LINE__"),
    ("CAT(__LI, NE__)", 1, "__LI"),
    ("CAT(_, _LINE__)", 1, "uses _,"),
    *((f"int a = {name};", 1, name) for name in ("__COUNTER__", "__TIME__", "__DATE__", "__FILE__", "__TIMESTAMP__")),
    *((f"int a = {name}();", 1, name) for name in ("__INCLUDE_LEVEL__", "__builtin_LINE", "__builtin_FILE")),
    ("#line 7\n", 0, "#line"),
    ('# 1 "/usr/include/stdio.h"\n', 0, "#1"),
    ("#  2\n", 0, "#2"),
    ("#include_next <a.h>\n", 0, "#include_next"),
    ("#import <a.h>\n", 0, "#import"),
    ('#embed "a.bin"\n', 0, "#embed"),
    ("#include HEADER\n", 0, "plain name"),
    ('#include "/tmp/a.h"\n', 0, "plain name"),
    ("#include <a//b.h>\n", 0, "plain name"),
    ("#include <a/*b.h>\n*/", 0, "plain name"),
    ("#include <experimental/source_location>\n", 0, "source_location"),
    ("#if __has_include(NAME)\n#endif", 0, "computed name"),
    ('#if __has_include("/tmp/a.h")\n#endif', 0, "computed name"),
    ("#define HAS(x) __has_include(x)\n", 0, "computed name"),
    ("#if CAT(__has_inc, lude)(<a.h>)\n#endif", 1, "__has_inc"),
    ("#if __has_embed(<a>)\n#endif", 1, "__has_embed"),
    ("%:include <a.h>\n", 1, "digraph"),
    ("#if 0\ndon't /*\n#endif\nint a; // */", 2, "begins no complete literal"),
    ('#error a "quote\n', 1, "begins no complete literal"),
    ("int a; /* open", 1, "without an end"),
    ("/*/", 1, "without an end"),
    ('R"a(open)b"', 1, "raw string without an end"),
    ('R"a b(x)a b"', 1, "unusual delimiter"),
    ('R"(a\nb)"', 1, "several lines"),
    ('R"(a\\\nb)"', 1, "several lines"),
    ("int caf\\u00e9;", 1, "begins no complete literal"),
    ("int a$b;", 1, "dollar sign"),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_comments_and_line_breaks_do_not_count(left, right):
    assert tokens.canonical(left) == tokens.canonical(right)
    assert tokens.find_problem(left) is None


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_everything_else_counts(left, right):
    assert tokens.canonical(left) != tokens.canonical(right)


@pytest.mark.parametrize(("text", "line", "message"), REFUSED)
def test_what_could_make_two_programs_look_alike_is_refused(text, line, message):
    found = tokens.find_problem(text)
    assert found is not None
    assert found[0] == line
    assert message in found[1]
    assert "\n" not in found[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#if defined(__has_include)\n#if __has_include(<a.h>)\n#endif\n#endif",
        "#ifdef __has_include\n#endif",
        '#include "../a.h" // why\n',
        "#pragma unroll\n",
        "char c = '\\''; auto n = 1'000'000; auto s = u8\"// no comment\\\"\";",
        'asm volatile("mov.u32 %0, _;" : "=r"(x));',
        'auto r = R"x(a)b" // )x";',
    ],
)
def test_ordinary_code_is_not_refused(text):
    assert tokens.find_problem(text) is None


@given(st.text(alphabet="ab1'\"\\/*#(R \n", max_size=40))
def test_no_character_but_blanks_and_comments_is_lost(text):
    spliced = text.replace("\\\n", "")
    kept = [word for kind, word, _ in tokens._scan(spliced) if kind not in ("comment", "blank", "newline")]
    assert "".join(word for _, word, _ in tokens._scan(spliced)) == spliced
    assert tokens.canonical(text).replace(" ", "").replace("\n", "") == "".join(kept).replace(" ", "").replace("\n", "")


@given(st.text(alphabet="ab1'\"\\/*#(R \n", max_size=40))
def test_canonical_text_is_its_own_canonical_text(text):
    if tokens.find_problem(text) is None:
        assert tokens.canonical(tokens.canonical(text)) == tokens.canonical(text)


def test_includes():
    text = """
    #include <system/a.h>
    #  include "own.h"   // really
    // #include "not.h"
    /* #include "neither.h"
    #include "nor.h" */
    #if __has_include("maybe.h")
    #endif
    #inc\\
lude "spliced.h"
    """
    assert tokens.includes(text) == (("system/a.h", False), ("own.h", True), ("maybe.h", True), ("spliced.h", True))


@pytest.mark.parametrize("piece", ["/*", '"\\"', "'", 'R"a(', '"', "//\\\n", "\\ ", "#if '", "??/", "_", "#include <a/", "\\\n"])
def test_damaged_sources_take_linear_time(piece):
    text = piece * (100_000 // len(piece))
    began = time.process_time()
    tokens.canonical(text)
    tokens.find_problem(text)
    tokens.includes(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ("int a; // one\n", "int a; // another\n", True),
        ("/* one\n two */\nint a;\n", "/* 1\n   2 */\nint a;", True),
        ("int a;\n", "int a;\n// more\n\n", True),
        ("int a;\r\n", "int a; // one\n", True),
        ("int a;\n", "// one\nint a;\n", False),
        ("int a;\n", "\nint a;\n", False),
        ("/* 1 */ int a;\n", "/* 12 */ int a;\n", False),  # a column can be seen, too
        ("int a;\n", " int a;\n", False),
        ("/* é */ int a;\n", "/* e */ int a;\n", False),
        ("// c \\\n d\nint a;\n", "// e \\\n ff\nint a;\n", True),
        ("// c \\\n/*\nint a;\n\n// */\n", "// c \\\n/*\n\nint a;\n// */\n", False),  # the line comment hides the /*
        ('"a\\\n/*"; int a;\n\n// */\n', '"a\\\n/*";\n int a;\n// */\n', False),
    ],
)
def test_code_stays_in_its_lines_and_columns_or_has_moved(before, after, stays):
    assert (tokens.in_place(before) == tokens.in_place(after)) is stays

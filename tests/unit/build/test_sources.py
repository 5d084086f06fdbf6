import pytest

from flashcore_ci.build import sources
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.errors import CannotCollectError

FILES = {
    "kernel/src/a.cu": '#include "near.h"\n#include <top.h>\n#include <cuda_runtime.h>\nint a;\n',
    "kernel/src/near.h": '#include "deep/far.h"\n',
    "kernel/include/top.h": "#pragma once\n",
    "kernel/include/deep/far.h": '#include "near2.h"\n#include "../top.h"\n#include "../../../../outside.h"\n',
    "kernel/include/deep/near2.h": '#include "far.h"\n',
    "kernel/bind.py": "x = 1\n",
}
CLOSURE = (
    "kernel/include/deep/far.h",
    "kernel/include/deep/near2.h",
    "kernel/include/top.h",
    "kernel/src/a.cu",
    "kernel/src/near.h",
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside.h").write_text("int outside;")
    for path, text in FILES.items():
        file = tmp_path / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "root"


def edited(root, path, old, new):
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new, 1))
    return Sources(root)


def test_closure_is_what_may_be_included_inside_the_checkout(root):
    assert Sources(root).closure("kernel/src/a.cu", ["kernel/include"]) == CLOSURE


def test_without_the_include_folder_less_is_found(root):
    assert Sources(root).closure("kernel/src/a.cu", []) == ("kernel/src/a.cu", "kernel/src/near.h")


def test_a_header_in_front_of_another_takes_its_place(root):
    (root / "kernel/src/deep").mkdir()
    (root / "kernel/src/deep/far.h").write_text("")
    assert "kernel/src/deep/far.h" in Sources(root).closure("kernel/src/a.cu", ["kernel/include"])


@pytest.mark.parametrize("path", ["../outside.h", "/etc/passwd", "kernel/../../outside.h"])
def test_outside(root, path):
    assert not Sources(root).is_inside(path)


def test_a_link_that_leads_outside_is_outside(root):
    (root / "kernel/link.h").symlink_to(root.parent / "outside.h")
    assert not Sources(root).is_inside("kernel/link.h")


def test_a_file_that_may_not_be_read_is_not_missing(root, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sources.files, "read", refuse)
    with pytest.raises(CannotCollectError, match=r"cannot read scale\.cu: Permission denied"):
        Sources(root).exists("scale.cu")


def test_a_comment_changes_bytes_and_not_tokens(root):
    in_bytes, in_tokens = Sources(root).bytes_digest(CLOSURE), Sources(root).c_digest(CLOSURE)
    after = edited(root, "kernel/include/top.h", "#pragma once\n", "#pragma once  // a comment\n")
    assert after.bytes_digest(CLOSURE) != in_bytes
    assert after.c_digest(CLOSURE) == in_tokens


def test_a_token_changes_both(root):
    in_bytes, in_tokens = Sources(root).bytes_digest(CLOSURE), Sources(root).c_digest(CLOSURE)
    after = edited(root, "kernel/src/a.cu", "int a;", "int b;")
    assert after.bytes_digest(CLOSURE) != in_bytes
    assert after.c_digest(CLOSURE) != in_tokens


def test_python(root):
    before = Sources(root).python_digest(["kernel/bind.py"])
    assert edited(root, "kernel/bind.py", "x = 1\n", "# c\nx = 1\n").python_digest(["kernel/bind.py"]) == before
    assert edited(root, "kernel/bind.py", "x = 1\n", "x = 2\n").python_digest(["kernel/bind.py"]) != before


def test_a_binding_that_is_not_python_counts_byte_for_byte(root):
    """Its # may be code, as in a header that a child process compiles."""
    (root / "kernel/tiles.cuh").write_text("#define TILE 64\n")
    before = Sources(root).python_digest(["kernel/tiles.cuh"])
    assert edited(root, "kernel/tiles.cuh", "64", "1").python_digest(["kernel/tiles.cuh"]) != before
    assert Sources(root).problems([], ["kernel/tiles.cuh"]) == []


def test_comments_of_python_that_can_see_lines_count(root):
    edited(root, "kernel/bind.py", "x = 1\n", "import inspect\n")
    before = Sources(root).python_digest(["kernel/bind.py"])
    assert edited(root, "kernel/bind.py", "import", "# c\nimport").python_digest(["kernel/bind.py"]) != before


def test_comments_count_if_another_file_of_the_subject_can_see_lines(root):
    (root / "kernel/subject.py").write_text("import linecache\n")
    before = Sources(root).python_digest(["kernel/bind.py"], ["kernel/subject.py"])
    after = edited(root, "kernel/bind.py", "x = 1\n", "# c\nx = 1\n").python_digest(["kernel/bind.py"], ["kernel/subject.py"])
    assert after != before


def test_equal_files_count_as_pragma_once_skips_a_copy(root):
    (root / "kernel/src/near.h").write_text("#pragma once\n")
    before = Sources(root).c_digest(CLOSURE)
    (root / "kernel/src/near.h").write_text("#pragma once  // another file\n")
    assert Sources(root).c_digest(CLOSURE) != before


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        ("kernel/src/a.cu", b"int a; // \xff\n", "not UTF-8"),
        ("kernel/src/a.cu", b"\nint a = __LINE__;\n", "__LINE__"),
        ("kernel/src/a.cu", b'#include "../../../outside.h"\n', "outside of the checkout"),
        ("kernel/src/a.cu", b"#include <../outside.h>\n", "outside of the checkout"),
        ("kernel/bind.py", b"x = 1 # \xff\n", "not UTF-8"),
        ("kernel/bind.py", b"# coding: utf-7\n", "encoding"),
    ],
)
def test_what_could_lie_is_refused_and_counts_byte_for_byte(root, path, data, message):
    (root / path).write_bytes(data)
    is_python = path.endswith(".py")
    (error,) = Sources(root).problems([] if is_python else [path], [path] if is_python else [])
    assert error.file == path
    assert message in error.message

    def digest():
        return Sources(root).python_digest([path]) if is_python else Sources(root).c_digest([path])

    before = digest()
    (root / path).write_bytes(data + (b"# c" if is_python else b"// c"))
    assert digest() != before


def test_a_header_in_a_parent_folder_of_the_checkout_is_no_problem(root):
    (root / "kernel/src/a.cu").write_text('#include "../include/top.h"\n')
    assert Sources(root).problems(["kernel/src/a.cu"], []) == []


def test_windows_line_ends_do_not_count(root):
    before = Sources(root).c_digest(["kernel/src/a.cu"])
    (root / "kernel/src/a.cu").write_bytes(FILES["kernel/src/a.cu"].replace("\n", "\r\n").encode())
    assert Sources(root).c_digest(["kernel/src/a.cu"]) == before


def test_digests_do_not_depend_on_the_folder(root, tmp_path):
    before = Sources(root)
    digests = before.bytes_digest(CLOSURE), before.c_digest(CLOSURE)
    root.rename(tmp_path / "elsewhere")
    after = Sources(tmp_path / "elsewhere")
    assert (after.bytes_digest(CLOSURE), after.c_digest(CLOSURE)) == digests


def test_digests_are_the_same_in_every_version_of_python(root):
    (root / "kernel/bind.py").write_text("# c\nx = f'{a!r:>{b}} {d[\"e\"]}'  # \u00e9\n\nif x:\n    y = '''\n\n# no comment'''\n")
    (root / "kernel/src/near.h").write_text(
        '#define S(x) #x /* c\n */ 1 // \u00e9\nauto s = S( a  + b ) "//"; int caf\u00e9 = 1\'0;\n'
    )
    digests = [Sources(root).python_digest(["kernel/bind.py"]), Sources(root).c_digest(["kernel/src/near.h"])]
    assert digests == [
        "8054d851f21d00d02a2e06074acb3588a76bf8bf1be836320a0665119a6f8827",
        "b99ff8c272db6c44345ac0d8ac97e1759dc7e27bd46afe288063f28ece7b6aaf",
    ]


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "near.h/b.h", "a\0b"], ids=("long", "deep", "in-a-file", "zero"))
def test_a_header_that_no_file_can_be_is_absent(root, name):
    (root / "kernel/src/k.cu").write_text(f'#include "{name}"\n')
    assert Sources(root).closure("kernel/src/k.cu", ["kernel"]) == ("kernel/src/k.cu",)

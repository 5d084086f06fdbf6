import hashlib

import pytest

from flashcore_ci.adapters import worktree

EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
LISTED = f"100644 blob {EMPTY}       0\ta/b\x00160000 commit {'1' * 40}       -\tsub\x00".encode()


def test_files_and_submodules_of_a_commit():
    found = worktree.parse_tree(LISTED)
    assert found["a/b"] == worktree.Entry(mode="100644", digest=EMPTY, size=0)
    assert found["sub"] == worktree.Entry(mode="160000", digest="1" * 40, size=-1)


@pytest.mark.parametrize("data", [b"x\x00", b"100644 blob\ta\x00", b"100644 blob 1 x\ta\x00"])
def test_other_text_is_an_error(data):
    with pytest.raises(ValueError):
        worktree.parse_tree(data)


def test_a_tree_without_its_commit_is_not_believed():
    tree = worktree.parse_tree(LISTED)
    assert not worktree.is_tree_of("2" * 40, b"tree 0", tree)


def test_the_command_s_own_folders_are_no_changes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x.py").touch()
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured/gpu.tar.xz").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / ".venv/x.py").touch()
    tree = worktree.parse_tree(LISTED)
    assert list(worktree.find_changes(tmp_path, tree, (tmp_path / "out",))) == []
    assert list(worktree.find_changes(tmp_path, tree)) == ["out/x.py is not in the commit"]


def entry_of(data, mode="100644"):
    return worktree.Entry(mode=mode, digest=hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(), size=len(data))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda top: None, None),
        (lambda top: (top / "a/b/two").write_bytes(b"TWO"), "a/b/two differs from the commit"),
        (lambda top: (top / "a/b/two").write_bytes(b"longer"), "a/b/two differs from the commit"),
        (lambda top: (top / "a/b/two").chmod(0o755), "a/b/two has another mode"),
        (lambda top: (top / "a/b/two").unlink(), "a/b/two is missing"),
        (lambda top: (top / "a").rename(top / "real") and (top / "a").symlink_to("real"), "a/b/one is behind a link"),
        (lambda top: (top / "a/b").rename(top / "real") and (top / "a/b").symlink_to("../real"), "a/b/two is behind a link"),
    ],
)
def test_every_difference_is_seen(tmp_path, change, line):
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "a/b" / name).write_text(name)
    (tmp_path / "link").symlink_to("a")
    tree = {f"a/b/{name}": entry_of(name.encode()) for name in ("one", "two")} | {"link": entry_of(b"a", worktree.LINK)}
    change(tmp_path)
    found = list(worktree.find_changes(tmp_path, tree))
    assert line in found if line else found == []


def test_a_path_of_many_folders_is_compared(tmp_path):
    path = "/".join(["d"] * 1900) + "/f"
    assert list(worktree.find_changes(tmp_path, {path: entry_of(b"f")})) == [f"{path} is missing"]

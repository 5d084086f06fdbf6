from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashcore_ci.bounded import files


def test_a_plain_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"text")
    assert files.read(file, limit=4) == b"text"
    assert files.read_start(file, limit=2) == b"te"
    assert files.read_end(file, limit=2) == b"xt"
    with pytest.raises(OSError, match="too large: more than 3 bytes"):
        files.read(file, limit=3)


def test_a_sparse_file_is_refused_after_its_limit(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="more than 2 MiB"):
        files.read(tmp_path / "a", limit=2 << 20)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "a pipe"), (Path.mkdir, "a folder"), (lambda path: path.symlink_to("/dev/zero"), "a device")],
)
def test_what_is_no_plain_file_is_named(tmp_path: Path, make: object, kind: str) -> None:
    make(tmp_path / "a")  # type: ignore[operator]
    with pytest.raises(OSError, match=kind):
        files.read(tmp_path / "a", limit=10)


def test_a_link_is_followed_only_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert files.read(tmp_path / "b", limit=10) == b"text"
    with pytest.raises(OSError, match="a link, not a plain file"):
        files.read(tmp_path / "b", limit=10, follow=False)


def test_a_loop_of_links_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    assert files.resolve(tmp_path / "a").name == "a"
    assert files.resolve(tmp_path / ("n" * 5000))


@pytest.mark.parametrize(("content", "is_lock"), [(b"", True), (b"4711\n", True), (b"4711 x", False), (b"1\n" * 20, False)])
def test_a_lock_holds_one_number(tmp_path: Path, content: bytes, is_lock: bool) -> None:
    (tmp_path / "lock").write_bytes(content)
    with (tmp_path / "lock").open("rb") as file:
        assert files.is_lock(file.fileno()) is is_lock

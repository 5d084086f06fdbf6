import pytest

from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.store import files
from flashcore_ci.store.files import write_atomically


def test_a_file_is_written_with_its_folders(tmp_path):
    write_atomically(tmp_path / "a/b/c.json", b"1")
    assert (tmp_path / "a/b/c.json").read_bytes() == b"1"
    assert (tmp_path / "a/b/c.json").stat().st_mode & 0o777 == 0o644


def test_the_old_file_survives_a_full_disk_and_nothing_else_is_left(tmp_path, monkeypatch):
    write_atomically(tmp_path / "x", b"old")

    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(CannotCollectError, match="No space left"):
        write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_cannot_be_made_is_an_error_with_a_fix(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCollectError, match="cannot write") as caught:
        write_atomically(tmp_path / "file/x", b"")
    assert caught.value.fix == f"make {tmp_path / 'file'} writable"

import hashlib

import factories
import pytest

from flashcore_ci.build.records import FILE, BuildSet, read_builds, refuse_foreign, write_builds
from flashcore_ci.model.errors import EvidenceError, UsageError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale/libscale.so").write_bytes(b"machine code")
    digest = hashlib.sha256(b"machine code").hexdigest()
    build = factories.make_build(library="scale/libscale.so", library_digest=digest)
    write_builds(tmp_path, BuildSet(builds=(build,), sources=(("scale", "tokens"),)))
    return tmp_path


def test_what_was_written_is_read(folder):
    (build,) = read_builds(folder).builds
    assert (build.subject, build.library) == ("scale", "scale/libscale.so")


def test_a_failed_build_has_no_library_to_check(tmp_path):
    failed = factories.make_build(library="", library_digest="", entries=(), error=factories.COMPILE_ERROR)
    write_builds(tmp_path, BuildSet(builds=(failed,), sources=()))
    assert read_builds(tmp_path).builds == (failed,)


def test_another_library_is_refused(folder):
    (folder / "scale/libscale.so").write_bytes(b"machine codf")
    with pytest.raises(EvidenceError, match="not the library that was built for scale"):
        read_builds(folder)


def test_a_library_that_is_gone_is_refused(folder):
    (folder / "scale/libscale.so").unlink()
    with pytest.raises(EvidenceError, match="No such file"):
        read_builds(folder)


def test_a_library_outside_the_folder_is_refused(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / FILE).write_text((folder / FILE).read_text().replace("scale/libscale.so", f"../{folder.name}/scale/libscale.so"))
    with pytest.raises(EvidenceError, match="outside"):
        read_builds(other)


@pytest.mark.parametrize(("old", "new"), [("build-v1", "build-v2"), ('"builds"', '"bilds"'), ("}", "")])
def test_another_schema_is_refused(folder, old, new):
    (folder / FILE).write_text((folder / FILE).read_text().replace(old, new, 1))
    with pytest.raises(EvidenceError, match=FILE):
        read_builds(folder)


def test_no_build_is_an_error(tmp_path):
    with pytest.raises(EvidenceError, match="No such file"):
        read_builds(tmp_path)


@pytest.mark.parametrize("place", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("/dev/null")])
def test_a_build_into_a_file_is_refused_before_it_compiles(tmp_path, place):
    place(tmp_path / "out")
    with pytest.raises(UsageError, match="is not a folder"):
        refuse_foreign(tmp_path / "out", ["s/lib.so"])

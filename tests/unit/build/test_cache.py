import hashlib

import pytest

from flashcore_ci.build.cache import Cache
from flashcore_ci.build.library import LinkedLibrary
from flashcore_ci.model.errors import CannotCollectError

KEY = "0123456789abcdef" * 4


def put(cache, content=b"library", named=""):
    with cache.workspace() as work:
        (work / "library.so").write_bytes(content)
        record = LinkedLibrary(key=named or KEY, digest=hashlib.sha256(content).hexdigest(), host_code="code")
        cache.keep(KEY, work / "library.so", record)
    return record


@pytest.fixture
def cache(tmp_path):
    return Cache(folder=tmp_path / "objects")


def test_what_was_kept_is_found_and_nothing_else_is_left(cache):
    assert cache.load(LinkedLibrary, KEY) is None
    record = put(cache)
    assert cache.load(LinkedLibrary, KEY) == record
    assert cache.product_path(KEY).read_bytes() == b"library"
    assert [path.name for path in cache.folder.iterdir()] == [KEY[:32]]


def test_an_altered_product_is_not_found(cache):
    put(cache)
    cache.product_path(KEY).write_bytes(b"librarx")
    assert cache.load(LinkedLibrary, KEY) is None
    assert cache.load(LinkedLibrary, KEY) is None
    record = put(cache)
    assert cache.load(LinkedLibrary, KEY) == record


@pytest.mark.parametrize("text", ["", "{", '{"digest": "x", "schema": "library-v2"}'])
def test_an_altered_record_is_not_found(cache, text):
    put(cache)
    cache.product_path(KEY).with_name("record.json").write_text(text)
    assert cache.load(LinkedLibrary, KEY) is None


def test_an_entry_of_another_key_is_not_found(cache):
    put(cache, named="f" * 64)
    assert cache.load(LinkedLibrary, KEY) is None
    assert put(cache) == cache.load(LinkedLibrary, KEY)


def test_work_that_failed_leaves_nothing(cache):
    def fail(work):
        (work / "library.so").write_bytes(b"half")
        raise KeyError

    with pytest.raises(KeyError), cache.workspace() as work:
        fail(work)
    assert list(cache.folder.iterdir()) == []


def test_a_folder_that_refuses_is_an_error_of_the_machine(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCollectError, match="cannot write"), Cache(folder=tmp_path / "file/objects").workspace():
        pass

"""The files that accept a lower bar."""

import pytest

from flashcore_ci.model.bar import BarDifference
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.suite.acceptances import read_acceptances, write_acceptance

DIFFERENCE = BarDifference(base="b" * 64, digest="d" * 64, changes=())


def test_what_is_written_is_read(tmp_path):
    suite = tmp_path / "gates/tiny.toml"
    suite.parent.mkdir()
    file = write_acceptance(suite, DIFFERENCE, why='why "not"\nhere \x7f\x1b[31m', owner="kernels")
    (found,) = read_acceptances(suite)
    assert (found.base, found.difference, found.owner) == (DIFFERENCE.base, DIFFERENCE.digest, "kernels")
    assert found.why == 'why "not" here [31m'
    assert found.file == f"gates/acceptances/{file.name}"


def test_nothing_is_overwritten(tmp_path):
    write_acceptance(tmp_path / "tiny.toml", DIFFERENCE, why="a", owner="b")
    with pytest.raises(UsageError, match="exists"):
        write_acceptance(tmp_path / "tiny.toml", DIFFERENCE, why="c", owner="d")


@pytest.mark.parametrize("words", [("", "b"), (" ", "b"), ("\x1b\udcff", "b"), ("...", "b"), ("a", "")])
def test_words_that_say_nothing_are_refused_before_a_file_is_written(tmp_path, words):
    with pytest.raises(UsageError, match="--accept" if words[1] else "--owner"):
        write_acceptance(tmp_path / "tiny.toml", DIFFERENCE, why=words[0], owner=words[1])
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "acceptances").symlink_to(tmp_path.parent)
    with pytest.raises(UsageError, match="acceptances is not a folder"):
        write_acceptance(tmp_path / "tiny.toml", DIFFERENCE, why="a", owner="b")


@pytest.mark.parametrize("make", ["mkdir", "touch"])
def test_the_fix_of_a_wrong_file_names_it(tmp_path, make):
    (tmp_path / "acceptances").mkdir()
    getattr(tmp_path / "acceptances/a.toml", make)()
    with pytest.raises(SuiteError) as caught:
        read_acceptances(tmp_path / "tiny.toml")
    assert f"remove {tmp_path}/acceptances/a.toml, then `flashcore-ci bar --accept WHY`" in caught.value.fix


def test_no_folder_is_no_acceptance(tmp_path):
    assert read_acceptances(tmp_path / "tiny.toml") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "base = 1",
        f'base = "{"b" * 64}"',
        f'base = "{"b" * 64}"\ndifference = "*"\nwhy = "x"\nowner = "x"',
        "[[",
        'more = "x"',
    ],
)
def test_a_file_that_is_not_one_is_an_error(tmp_path, text):
    (tmp_path / "acceptances").mkdir()
    (tmp_path / "acceptances/a.toml").write_text(text)
    with pytest.raises(SuiteError):
        read_acceptances(tmp_path / "tiny.toml")


def test_the_id_of_the_gate_is_reserved(tmp_path):
    from bars import SUITE, read

    with pytest.raises(SuiteError, match='"bar" is the built-in gate'):
        read(tmp_path / "head", SUITE.replace('id = "memcheck"', 'id = "bar"'))

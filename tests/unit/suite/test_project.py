from pathlib import Path

import pytest

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.suite.project import FALLBACK, MEANING, Project, parse_project, read_project


def test_without_a_table_paths_are_next_to_the_suite(tmp_path: Path) -> None:
    assert read_project(tmp_path) == Project()
    assert read_project(tmp_path).resolved() == {
        "suite": FALLBACK,
        "evidence": "gates/evidence",
        "subjects": "",
        "selftest": "gates/selftest.toml",
        "planted": "gates/planted.toml",
    }
    assert set(MEANING) == set(Project().resolved())


def test_a_table_names_what_it_likes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.flashcore-ci]\nsuite = "a/b.toml"\nevidence = "e"\n')
    project = read_project(tmp_path)
    assert (project.path_of("suite"), project.path_of("evidence"), project.path_of("selftest")) == (
        Path("a/b.toml"),
        Path("e"),
        Path("a/selftest.toml"),
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("siute = 'x'", 'unknown key "siute" (did you mean "suite"?)'),
        ("suite = 3", "a path in quotes is needed"),
        ("suite = ''", "a path in quotes is needed"),
        ('suite = "a\\u001b[2J"', "a path in quotes is needed"),
        ("suite = '/etc/passwd'", "not a path inside the checkout"),
        ("suite = 'a/../../b.toml'", "not a path inside the checkout"),
        ("suite = ", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.flashcore-ci]\n{table}\n")
    with pytest.raises(SuiteError) as caught:
        read_project(tmp_path)
    assert message in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    "text", ["[tool]\nflashcore-ci = 3", "[[tool.flashcore-ci]]", "\xff flashcore-ci", '[project]\nname = "cu']
)
def test_other_shapes_are_errors(text: str) -> None:
    with pytest.raises(SuiteError, match=r"pyproject\.toml"):
        parse_project(text.encode("latin-1"))


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(SuiteError, match="cannot be read"):
        read_project(tmp_path)

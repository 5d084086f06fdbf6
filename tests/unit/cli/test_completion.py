"""Shell completion knows suites, gates and workloads."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click
import pytest
from suite_texts import WHOLE

from flashcore_ci.cli import completion, main
from flashcore_ci.run import place


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "gates").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.flashcore-ci]\nsuite = "gates/tiny.toml"\n')
    (tmp_path / "gates/tiny.toml").write_text(WHOLE)
    (tmp_path / "gates/other.toml").write_text(WHOLE.replace("finite", "other"))
    (tmp_path / "gates/waivers.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(command: str, option: str, incomplete: str, **params: object) -> list[str]:
    with click.Context(main.cli) as context:
        found = main.cli.get_command(context, command)
        assert found is not None
        parameter = next(each for each in found.params if option in each.opts)
        inner = click.Context(found)
        inner.params = params
        return [item.value for item in parameter.shell_complete(inner, incomplete)]


def test_gates_workloads_and_subjects(checkout: Path) -> None:
    assert completed("gate", "--only", "") == ["finite", "scale", "big-1", "big-2"]
    assert completed("gate", "--only", "big") == ["big-1", "big-2"]
    assert completed("gate", "--only", "o", suite=Path("gates/other.toml")) == ["other"]


def test_explain_knows_codes_too(checkout: Path) -> None:
    assert completed("explain", "name", "fin") == ["finite"]
    assert completed("explain", "name", "over-") == ["over-limit"]
    assert completed("explain", "name", "big") == []


def test_suites_from_any_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("gate", "--suite", "") == ["gates/other.toml", "gates/tiny.toml"]
    monkeypatch.chdir(checkout / "sub")
    with place.at_top():
        assert completed("gate", "--suite", "") == ["../gates/other.toml", "../gates/tiny.toml"]


def test_other_paths_are_left_to_the_shell(checkout: Path) -> None:
    assert completed("gate", "--evidence", "ga") == ["ga"]
    assert completed("gate", "--suite", "/x") == ["/x"]


@pytest.mark.parametrize("text", ["[", "gate = 3\nworkload = [3]\n", "[[gate]]\nid = 3\n[[workload]]\neach = 3\n", ""])
def test_a_broken_suite_completes_nothing(checkout: Path, text: str) -> None:
    (checkout / "gates/tiny.toml").write_text(text)
    assert completed("gate", "--only", "") == []


@pytest.mark.parametrize("name", ["a\\u001b[2J", "a\\nplain,b", "a b", "a$(touch x)", "a`id`", "a\\u202eb", "a;b", "a,b"])
def test_a_name_that_a_shell_would_read_is_left_out(checkout: Path, name: str) -> None:
    (checkout / "gates/tiny.toml").write_text(f'[[gate]]\nid = "{name}"\n[[gate]]\nid = "good"\n')
    assert completed("gate", "--only", "") == ["good"]


def test_so_is_a_file(checkout: Path) -> None:
    (checkout / "gates/x\x1b[2J.toml").write_text(WHOLE)
    assert completed("gate", "--suite", "gates/x") == ["gates/x"]


def test_a_huge_family_ends(checkout: Path) -> None:
    axes = ", ".join(f"a{i} = [{', '.join(map(str, range(50)))}]" for i in range(6))
    fields = "".join(f"{{a{i}}}-" for i in range(6))
    (checkout / "gates/tiny.toml").write_text(f'[[workload]]\nid = "{fields}"\neach = {{ {axes} }}\n')
    assert len(completed("gate", "--only", "")) == completion.MOST


def test_it_needs_no_pydantic() -> None:
    for module in ("suite/names.py", "suite/project.py", "run/completion.py", "run/place.py"):
        text = (Path(main.__file__).parents[1] / module).read_text()
        assert not any(
            line.startswith(("import pydantic", "from pydantic", "from flashcore_ci.suite.tables")) for line in text.splitlines()
        )


def test_use_cases_are_not_run_for_it() -> None:
    spec = completion.LazyFinder.find_spec("flashcore_ci.run.gate", [str(Path(main.__file__).parents[1] / "run")])
    assert spec is not None
    assert isinstance(spec.loader, importlib.util.LazyLoader)
    assert completion.LazyFinder.find_spec("flashcore_ci.model.plan") is None

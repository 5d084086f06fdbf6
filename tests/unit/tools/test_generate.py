"""Generated files are what code, samples and evidence give."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools/docs"))
    return importlib.import_module("generate")


def test_the_committed_pages_are_up_to_date(generate: ModuleType) -> None:
    assert generate.main(["--check", "performance", "roofline"]) == 0


@pytest.mark.parametrize("arguments", [["--chekc", "codes"], ["cods"], []])
def test_an_unknown_argument_writes_nothing(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    with pytest.raises(SystemExit):
        generate.main(arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_check_names_stale_files_and_a_run_writes_them(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("exit-codes", "reasons"):
        (tmp_path / f"docs/{name}.md").write_text("# Codes\n<!-- table: begin -->\n<!-- table: end -->\n", encoding="utf-8")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check", "codes"]) == 1
    assert "docs/exit-codes.md: not up to date" in capsys.readouterr().err
    assert generate.main(["codes"]) == 0
    assert generate.main(["--check", "codes"]) == 0

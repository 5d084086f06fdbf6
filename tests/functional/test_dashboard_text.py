"""What comes from outside to the dashboard: text of a database, and the artifacts of earlier nights."""

from __future__ import annotations

import contextlib
import importlib.util
import sqlite3
import sys
from pathlib import Path

import pytest
from dashboards import hostile
from history_factories import add, migrated_url_of, new_run

from flashcore_ci.run import dashboard

ROOT = Path(__file__).parents[2]
NO_SUITE = Path("none.toml")


@pytest.mark.parametrize("number", range(9))
def test_text_of_the_database_is_shown_as_text(tmp_path: Path, number: int) -> None:
    """Rows that another program wrote, because the store itself keeps no control characters."""
    url = migrated_url_of(tmp_path)
    add(url, new_run())
    text = hostile(number).encode("utf-8", "replace").decode().replace("\0", "")
    with contextlib.closing(sqlite3.connect(tmp_path / "history.db")) as plain, plain:
        for table, column in (
            ("runs", "branch"),
            ("runs", "headline"),
            ("machines", "name"),
            ("series", "workload"),
            ("entries", "symbol"),
            ("commits", "subject"),
            ("verdicts", "message"),
            ("epochs", "driver"),
        ):
            plain.execute(f"UPDATE {table} SET {column} = ? || {column}", (text,))
    for path, content in dashboard.site.files(dashboard.read(url, {}, NO_SUITE)).items():
        if path.endswith((".html", ".json")):
            shown = content.decode()
            assert all(c.isprintable() or c == "\n" for c in shown), path
            assert "<script>document" not in shown or path.endswith(".json"), path
            assert "<img" not in shown or path.endswith(".json"), path


def test_the_history_of_last_night_is_found() -> None:
    sys.path.insert(0, str(ROOT / ".github/actions"))
    try:
        spec = importlib.util.spec_from_file_location("history_of_the_actions", ROOT / ".github/actions/history.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)

    def artifact(run: int, **changes: object) -> dict[str, object]:
        of = {"id": run, "head_branch": "main", "head_repository_id": 1, "repository_id": 1} | changes.pop("of", {})  # type: ignore[operator]
        return {"name": "history", "expired": False, "created_at": f"2026-11-{run:02}", "workflow_run": of} | changes

    good = [artifact(3), artifact(5), artifact(4)]
    bad = [
        artifact(9, of={"head_branch": "evil"}),
        artifact(9, of={"head_repository_id": 2}),
        artifact(9, expired=True),
        artifact(9, name="x"),
    ]
    assert module.newest([*good, *bad], "history", "main") == "5"
    assert module.newest(bad, "history", "main") == ""

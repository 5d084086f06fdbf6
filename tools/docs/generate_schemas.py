"""Write docs/schemas from the records. After a change to a record: python3 tools/docs/generate_schemas.py."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.store.schemas import PUBLISHED, schema_text

FOLDER = Path(__file__).resolve().parents[2] / "docs/schemas"

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PUBLISHED:
        (FOLDER / name).write_text(schema_text(name), encoding="utf-8")

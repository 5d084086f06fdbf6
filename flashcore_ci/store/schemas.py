"""The published JSON schemas, as in ``docs/schemas``."""

from __future__ import annotations

import json
from typing import Any

from flashcore_ci.model.verdict import REPORT_SCHEMA, Report
from flashcore_ci.store.codec import schema_of

PUBLISHED: dict[str, type[Any]] = {f"{REPORT_SCHEMA}.json": Report}
"""File name under ``docs/schemas`` and the record that it describes."""


def schema_text(file_name: str) -> str:
    """Return the content of ``docs/schemas/<file_name>``. KeyError if not published."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of(PUBLISHED[file_name])}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"

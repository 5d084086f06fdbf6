"""The files of the site, by path."""

from __future__ import annotations

from flashcore_ci.dashboard import cost, gate_page, machines, overview, runs, versions, workload
from flashcore_ci.dashboard.assets import ASSETS
from flashcore_ci.dashboard.changes import Change, Status
from flashcore_ci.dashboard.page import INLINE
from flashcore_ci.model.dashboard import Snapshot

PAGES = {
    "index.html": overview.render,
    "versions.html": versions.render,
    "compare.html": runs.render,
    "machines.html": machines.render,
    "cost.html": cost.render,
    "gate.html": gate_page.render,
    "data/runs.json": runs.listed,
}
TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


RETIRED = Change(status=Status.UNPROVEN, why="no longer measured")


def files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return every file of the site."""
    made = {path: render(snapshot) for path, render in PAGES.items()}
    known = {row.line.key: row.change for row in overview.rows_of(snapshot)}
    for line in snapshot.lines:
        made[f"w/{line.key}.html"] = workload.render(line, known.get(line.key, RETIRED), snapshot)
        made[f"data/series/{line.key}.json"] = workload.data(line, snapshot)
    made |= runs.data(snapshot)
    return made | {
        f"assets/{name}": content
        for name, content in ASSETS.items()
        if content.decode() not in INLINE["style"] + INLINE["script"]
    }


def media_type(path: str) -> str:
    """Return the media type of a path of the site."""
    return TYPES.get(path.rpartition(".")[2], "application/octet-stream")

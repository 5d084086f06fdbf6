"""GitHub's API for a scratch repository, on a server of this process: files, branches, pull requests, checks and rules.

``states`` says what GitHub would answer for each forged pull request. It is a stand-in: it says nothing about GitHub itself.
"""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPOSITORY = "flashcore/flashcore-ci-scratch"
RULES = [
    {"type": "pull_request", "parameters": {"required_approving_review_count": 0, "require_code_owner_review": False}},
    {
        "type": "required_status_checks",
        "parameters": {"required_status_checks": [{"context": "gate / required", "integration_id": 15368}]},
    },
    {"type": "workflows", "parameters": {}},
]


class ScratchServer(ThreadingHTTPServer):
    """A scratch repository whose files are those of this project."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rules: list[dict[str, Any]] = json.loads(json.dumps(RULES))
        self.states: dict[str, str] = {"honest": "clean"}
        self.running: set[str] = set()
        self.fails_at = ""
        self.branches: dict[str, dict[str, str]] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.written: dict[str, dict[str, str]] = {}
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: ScratchServer

    def answer(self, status: int, content: Any) -> None:
        self.send_response(status)
        self.end_headers()
        if status != 204:
            self.wfile.write(json.dumps(content).encode())

    def sent(self) -> dict[str, Any]:
        assert self.headers["Authorization"] == "Bearer the-token"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def place(self) -> str:
        self.server.asked += 1
        path = self.path.partition("?")[0]
        assert path.startswith(f"/repos/{REPOSITORY}"), path
        return path.removeprefix(f"/repos/{REPOSITORY}").strip("/")

    def do_GET(self) -> None:
        place = self.place()
        if place == "":
            self.answer(200, {"default_branch": "main"})
        elif place == "rules/branches/main":
            self.answer(200, self.server.rules)
        elif place == "git/ref/heads/main":
            self.answer(200, {"object": {"sha": "a" * 40}})
        elif place.startswith("contents/"):
            file = ROOT / place.removeprefix("contents/")
            content = {"content": base64.b64encode(file.read_bytes()).decode(), "sha": "b" * 40} if file.is_file() else {}
            self.answer(200 if content else 404, content)
        elif place.startswith("pulls/"):
            number = int(place.removeprefix("pulls/"))
            name = self.server.pulls[number]["title"].removeprefix("forged: ")
            self.answer(200, {"head": {"sha": f"{number:040x}"}, "mergeable_state": self.server.states.get(name, "blocked")})
        else:
            number = int(place.split("/")[1], 16)
            name = self.server.pulls[number]["title"].removeprefix("forged: ")
            status = "in_progress" if name in self.server.running else "completed"
            self.answer(200, {"check_runs": [{"name": "gate / required", "status": status}]})

    def do_POST(self) -> None:
        place, content = self.place(), self.sent()
        if self.server.fails_at and self.server.fails_at in str(content):
            self.answer(422, {})
        elif place == "git/refs":
            self.server.branches[content["ref"].removeprefix("refs/heads/")] = {}
            self.answer(201, {})
        else:
            assert place == "pulls"
            assert content["base"] == "main"
            assert content["head"] in self.server.branches
            number = len(self.server.pulls) + 1
            self.server.pulls[number] = {**content, "state": "open"}
            self.answer(201, {"number": number})

    def do_PUT(self) -> None:
        place, content = self.place(), self.sent()
        path = place.removeprefix("contents/")
        assert content["branch"] in self.server.branches
        assert ("sha" in content) == (ROOT / path).is_file()
        self.server.branches[content["branch"]][path] = base64.b64decode(content["content"]).decode()
        self.server.written.setdefault(content["branch"].rpartition("-")[2], {})[path] = "written"
        self.answer(200, {})

    def do_PATCH(self) -> None:
        number = int(self.place().removeprefix("pulls/"))
        self.server.pulls[number]["state"] = self.sent()["state"]
        self.answer(200, {})

    def do_DELETE(self) -> None:
        found = self.server.branches.pop(self.place().removeprefix("git/refs/heads/"), None)
        self.answer(422 if found is None else 204, {})

    def log_message(self, *arguments: object) -> None:
        pass

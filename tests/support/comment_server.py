"""GitHub's comments under one pull request, on a server of this process."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Comments(ThreadingHTTPServer):
    """The comments of pull request 7."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.refuses = False

    def put(self, body: str, kind: str = "Bot") -> None:
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "user": {"type": kind}, "html_url": f"https://github.com/c/{number}"})


class Handler(BaseHTTPRequestHandler):
    server: Comments

    def answer(self, status: int, content: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def sent(self) -> str:
        assert self.headers["Authorization"] == "Bearer the-token"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        assert path == "/repos/flashcore/flashcore-ci/issues/7/comments"
        page = int(query.rpartition("page=")[2])
        self.answer(403 if self.server.refuses else 200, self.server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        assert self.path == "/repos/flashcore/flashcore-ci/issues/7/comments"
        self.server.put(self.sent())
        self.answer(201, self.server.comments[-1])

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/repos/flashcore/flashcore-ci/issues/comments/")[2])
        self.server.comments[number - 1]["body"] = self.sent()
        self.answer(200, self.server.comments[number - 1])

    def log_message(self, *arguments: object) -> None:
        pass

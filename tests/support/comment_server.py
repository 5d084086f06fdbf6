"""GitHub's API for one repository, on a server of this process: comments of a pull request, and workflow runs."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "/repos/flashcore/flashcore-ci"
TRUSTED = "flashcore/flashcore-ci/.github/workflows/trusted.yml@refs/heads/main"

Server = TypeVar("Server", bound=ThreadingHTTPServer)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Comments(ThreadingHTTPServer):
    """The comments of pull request 7, and the runs of workflows."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.artifacts: dict[int, list[dict[str, Any]]] = {}
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, body: str, login: str = "github-actions[bot]") -> None:
        number = len(self.comments) + 1
        user = {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}
        self.comments.append({"id": number, "body": body, "user": user, "html_url": f"https://github.com/c/{number}"})

    def put_run(self, number: int, commit: str, **changes: Any) -> None:
        """Add a workflow run as the API shows it."""
        run = {"id": number, "head_sha": commit, "run_attempt": 1, "event": "pull_request", "path": ".github/workflows/gate.yml"}
        run |= {"head_commit": {"id": commit, "tree_id": "t" + commit[1:]}, "referenced_workflows": [{"path": TRUSTED}]}
        run |= {"conclusion": "success", "head_branch": "gh-readonly-queue/main/pr-7"}
        run["referenced_workflows"] = [{"path": TRUSTED, "sha": "a" * 40}]
        self.runs.append({**run, **changes})

    def put_artifact(self, run: int, name: str, number: int) -> None:
        """Add an upload of a run."""
        self.artifacts.setdefault(run, []).append({"id": number, "name": name, "expired": False})


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
        place = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        part = slice(100 * (int(query.pop("page", "1")) - 1), None)
        query.pop("per_page", None)
        if self.server.refuses:
            self.answer(403, {})
        elif place.path == f"{REPOSITORY}/issues/7/comments":
            self.answer(200, self.server.comments[part][:100])
        elif place.path == f"{REPOSITORY}/actions/runs":
            found = [run for run in self.server.runs if all(run[name] == value for name, value in query.items())]
            self.answer(200, {"total_count": len(found), "workflow_runs": found[part][:100]})
        elif place.path == f"{REPOSITORY}/actions/artifacts":
            self.answer(200, {"total_count": 0, "artifacts": []})
        elif place.path.endswith("/artifacts"):
            found = self.server.artifacts.get(int(place.path.split("/")[-2]), [])
            self.answer(200, {"total_count": len(found), "artifacts": found})
        else:
            number = place.path.removeprefix(f"{REPOSITORY}/actions/runs/")
            run = next((run for run in self.server.runs if str(run["id"]) == number), None)
            self.answer(200 if run else 404, run or {})

    def do_POST(self) -> None:
        assert self.path == f"{REPOSITORY}/issues/7/comments"
        self.server.put(self.sent())
        self.answer(201, self.server.comments[-1])

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition(f"{REPOSITORY}/issues/comments/")[2])
        self.server.comments[number - 1]["body"] = self.sent()
        self.answer(200, self.server.comments[number - 1])

    def log_message(self, *arguments: object) -> None:
        pass

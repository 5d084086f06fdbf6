"""The comment under a pull request: written once, then updated in place. GitHub is a server in this process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from replayed import ROOT

PROGRAM = ROOT / ".github/actions/comment/comment.py"
MARKER = "<!-- flashcore-ci: hopper -->"


class GitHub(ThreadingHTTPServer):
    """The comments of pull request 7."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.refuses = False

    def put(self, body: str, kind: str = "Bot") -> None:
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "user": {"type": kind}, "html_url": f"https://github.com/c/{number}"})


class Handler(BaseHTTPRequestHandler):
    server: GitHub

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


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def post(github: GitHub, file: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}",
        "GITHUB_REPOSITORY": "flashcore/flashcore-ci",
        "COMMENT_FILE": str(file),
        "COMMENT_NUMBER": "7",
        "GH_TOKEN": "the-token",
        **variables,
    }
    return subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=60)


def report(folder: Path, text: str) -> Path:
    file = folder / "comment.md"
    file.write_text(f"{MARKER}\n{text}", encoding="utf-8")
    return file


def test_it_is_written_once_and_then_updated_in_place(github: GitHub, tmp_path: Path) -> None:
    github.put(f"> {MARKER}\nI quote it", kind="User")
    github.put(f"{MARKER}\nI am a person", kind="User")
    for _ in range(120):  # more than a page
        github.put("chatter", kind="User")
    assert "wrote" in post(github, report(tmp_path, "red")).stdout
    assert "updated" in post(github, report(tmp_path, "green")).stdout
    assert [c["body"] for c in github.comments if c["user"]["type"] == "Bot"] == [f"{MARKER}\ngreen"]
    assert github.comments[1]["body"].endswith("I am a person")


def test_another_suite_has_a_comment_of_its_own(github: GitHub, tmp_path: Path) -> None:
    github.put("<!-- flashcore-ci: smoke -->\nsmoke")
    assert post(github, report(tmp_path, "green")).returncode == 0
    assert len(github.comments) == 2


def test_a_long_report_is_cut_and_says_so(github: GitHub, tmp_path: Path) -> None:
    assert post(github, report(tmp_path, "é" * 200_000)).returncode == 0
    (comment,) = github.comments
    assert len(comment["body"]) <= 65_536
    assert "did not fit" in comment["body"]


def test_what_is_no_report_is_not_posted(github: GitHub, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("buy now")
    (tmp_path / "token").write_text(f"{MARKER}\nsecret")
    (tmp_path / "link.md").symlink_to(tmp_path / "token")
    for name in ("other.md", "link.md", "absent.md"):
        done = post(github, tmp_path / name)
        assert (done.returncode, done.stdout.startswith("::error ")) == (1, True)
        assert "Traceback" not in done.stderr
    assert github.comments == []


def test_a_refusal_of_github_fails_the_step(github: GitHub, tmp_path: Path) -> None:
    github.refuses = True
    done = post(github, report(tmp_path, "green"))
    assert (done.returncode, "403" in done.stdout, done.stderr) == (1, True, "")


def test_a_token_goes_to_github_alone(github: GitHub, tmp_path: Path) -> None:
    done = post(github, report(tmp_path, "green"), GITHUB_API_URL="http://example.org")
    assert (done.returncode, "is not GitHub" in done.stdout) == (1, True)

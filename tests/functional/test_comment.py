"""Check that the comment on a pull request is written once, then updated. A server in this process plays GitHub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from comment_server import Comments
from replayed import ROOT

PROGRAM = ROOT / ".github/actions/comment.py"
MARKER = "<!-- flashcore-ci: hopper -->"


def post(comments: Comments, file: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "GITHUB_API_URL": comments.url,
        "GITHUB_REPOSITORY": "flashcore/flashcore-ci",
        "COMMENT_FILE": str(file),
        "COMMENT_NUMBER": "7",
        "COMMENT_REQUIRED": "failure",
        "COMMENT_ATTEMPTS": "2",
        "GH_TOKEN": "the-token",
        **variables,
    }
    return subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=600)


def report(folder: Path, text: str) -> Path:
    file = folder / "comment.md"
    file.write_text(f"{MARKER}\n{text}", encoding="utf-8")
    return file


def test_it_is_written_once_and_then_updated_in_place(comments: Comments, tmp_path: Path) -> None:
    comments.put(f"> {MARKER}\nI quote it", login="somebody")
    comments.put(f"{MARKER}\nI am a person", login="somebody")
    for _ in range(120):  # more than a page
        comments.put("chatter", login="somebody")
    assert "wrote" in post(comments, report(tmp_path, "red")).stdout
    assert "updated" in post(comments, report(tmp_path, "green")).stdout
    (ours,) = [c["body"] for c in comments.comments if c["user"]["type"] == "Bot"]
    assert ours.startswith(f"{MARKER}\n**Check `required`: failure, attempt 2 of this commit.**")
    assert ours.endswith("\n\ngreen")
    assert comments.comments[1]["body"].endswith("I am a person")


def test_a_comment_of_another_app_is_left_alone(comments: Comments, tmp_path: Path) -> None:
    comments.put(f"{MARKER}\nquoted", login="dependabot[bot]")
    assert "wrote" in post(comments, report(tmp_path, "green")).stdout
    assert comments.comments[0]["body"].endswith("quoted")


@pytest.mark.parametrize(
    "variables", [{"COMMENT_REQUIRED": "success** ::error::"}, {"COMMENT_ATTEMPTS": "1\n# x"}, {"COMMENT_ATTEMPTS": "²"}]
)
def test_a_result_that_github_does_not_know_is_refused(comments: Comments, tmp_path: Path, variables: dict[str, str]) -> None:
    assert post(comments, report(tmp_path, "green"), **variables).returncode == 1
    assert comments.comments == []


def test_another_suite_has_a_comment_of_its_own(comments: Comments, tmp_path: Path) -> None:
    comments.put("<!-- flashcore-ci: smoke -->\nsmoke")
    assert post(comments, report(tmp_path, "green")).returncode == 0
    assert len(comments.comments) == 2


def test_a_long_report_is_cut_and_says_so(comments: Comments, tmp_path: Path) -> None:
    assert post(comments, report(tmp_path, "é" * 200_000)).returncode == 0
    (comment,) = comments.comments
    assert len(comment["body"]) <= 65_536
    assert "did not fit" in comment["body"]


def test_a_file_that_is_not_a_report_is_not_posted(comments: Comments, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("buy now")
    (tmp_path / "token").write_text(f"{MARKER}\nsecret")
    (tmp_path / "link.md").symlink_to(tmp_path / "token")
    for name in ("other.md", "link.md", "absent.md"):
        done = post(comments, tmp_path / name)
        assert (done.returncode, done.stdout.startswith("::error ")) == (1, True)
        assert "Traceback" not in done.stderr
    assert comments.comments == []


def test_a_refusal_of_github_fails_the_step(comments: Comments, tmp_path: Path) -> None:
    comments.refuses = True
    done = post(comments, report(tmp_path, "green"))
    assert (done.returncode, "403" in done.stdout, done.stderr) == (1, True, "")


def test_a_token_goes_to_github_alone(comments: Comments, tmp_path: Path) -> None:
    done = post(comments, report(tmp_path, "green"), GITHUB_API_URL="http://example.org")
    assert (done.returncode, "is not GitHub" in done.stdout) == (1, True)

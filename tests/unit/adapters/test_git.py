from pathlib import Path
from types import SimpleNamespace

import pytest

from flashcore_ci.adapters import git
from flashcore_ci.model.errors import CannotCollectError, UsageError

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "commit"),
    [(f"{SHA}\n", SHA), (SHA + "0" * 24, SHA + "0" * 24), ("", ""), ("HEAD\n", ""), (SHA[:12], ""), ("g" * 40, "")],
)
def test_only_a_full_hash_is_a_commit(text, commit):
    assert git.parse_commit(text) == commit


def test_git_is_asked_about_the_checkout_and_not_about_where_we_are():
    for argv in (git.commit_argv(Path("/a/b")), git.top_argv(Path("/a/b"))):
        assert argv[:3] == ("git", "-C", "/a/b")


def test_a_name_that_looks_like_an_option_is_none():
    argv = git.fork_argv(Path("/a/b"), "--output=/etc/passwd")
    assert argv.index("--") < argv.index("--output=/etc/passwd")


@pytest.mark.parametrize(
    ("revision", "refs", "count"),
    [
        ("origin/main", ["refs/remotes/origin/main"], 1),
        ("origin/main", ["refs/remotes/origin/main", "refs/tags/origin/main"], 2),
        ("origin/main~2", ["refs/remotes/origin/main", "refs/heads/origin/main"], 2),
        ("main@{1}", ["refs/heads/main", "refs/tags/main"], 2),
        ("main", ["refs/heads/main", "refs/tags/main/1"], 1),
        ("abc1234", ["refs/tags/abc1234"], 2),
        ("v1-3-gabc1234", ["refs/tags/v1-3-gabc1234"], 2),
        (SHA, ["refs/tags/" + SHA], 1),
        ("HEAD", [], 0),
    ],
)
def test_a_revision_has_one_meaning(revision, refs, count):
    assert len(git.meanings(revision, refs)) == count


@pytest.mark.parametrize(
    ("said", "error", "fix"),
    [
        (
            "fatal: detected dubious ownership in repository at '/r'\nTo add:\n\n\tgit config --global --add safe.directory /r\n",
            CannotCollectError,
            "git config --global --add safe.directory /r",
        ),
        ("fatal: not a git repository (or any of the parent directories): .git\n", CannotCollectError, "clone"),
        ("fatal: Not a valid object name main\n", UsageError, "git fetch"),
        ("", UsageError, "git fetch"),
    ],
)
def test_what_git_refuses_is_no_unknown_commit(monkeypatch, tmp_path, said, error, fix):
    seen = SimpleNamespace(returncode=128, text=str, error_text=lambda: said)
    monkeypatch.setattr(git.process, "run", lambda *_, **__: seen)
    with pytest.raises(error) as caught:
        git.fork_point(tmp_path, "main", logs=tmp_path)
    assert fix in caught.value.fix
    assert said.partition("\n")[0].removeprefix("fatal: ") in str(caught.value) or error is UsageError


def test_git_stashes_without_programs_of_its_settings():
    assert {"core.fsmonitor=false", "core.hooksPath=/dev/null"} <= set(git.snapshot_argv(Path("/a/b")))


def test_variables_that_point_git_elsewhere_are_dropped():
    elsewhere = {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_OBJECT_DIRECTORY": "/x", "GIT_REPLACE_REF_BASE": "x", "HOME": "/h"}
    kept = git.environment({**elsewhere, "GIT_CONFIG_COUNT": "0"})
    assert not kept.keys() & (elsewhere.keys() - {"HOME"})
    assert (kept["HOME"], kept["GIT_CONFIG_COUNT"], kept["GIT_NO_REPLACE_OBJECTS"]) == ("/h", "0", "1")

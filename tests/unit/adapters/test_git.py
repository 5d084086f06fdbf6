from pathlib import Path

import pytest

from flashcore_ci.adapters import git

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "commit"),
    [(f"{SHA}\n", SHA), (SHA + "0" * 24, SHA + "0" * 24), ("", ""), ("HEAD\n", ""), (SHA[:12], ""), ("g" * 40, "")],
)
def test_only_a_full_hash_is_a_commit(text, commit):
    assert git.parse_commit(text) == commit


def test_git_is_asked_about_the_checkout_and_not_about_where_we_are():
    for argv in (git.commit_argv(Path("/a/b")), git.status_argv(Path("/a/b"))):
        assert argv[:3] == ("git", "-C", "/a/b")

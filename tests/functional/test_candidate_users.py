"""The users of candidates' processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashcore_ci.worker import sandbox

LAST = 2


def test_no_two_candidates_have_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "USERS", (first := 4_000_000_000 + os.getpid() * 10, first + LAST))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    claims = [sandbox.claim_user() for _ in range(LAST + 1)]
    assert sorted(user for user, _ in claims) == list(range(first, first + LAST + 1))
    with pytest.raises(OSError, match="all user ids"):
        sandbox.claim_user()
    user, claim = claims[1]
    assert claim is not None
    claim.close()
    again = sandbox.claim_user()
    assert again[0] == user
    for _, each in (claims[0], claims[2], again):
        assert each is not None
        each.close()


def test_who_may_not_change_the_user_claims_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.claim_user() == (0, None)


ENTER = """
import os, pathlib, subprocess, sys
from flashcore_ci.worker import sandbox
tree, home = map(pathlib.Path, sys.argv[1:3])
os.chown(home, user := 60_999, user)
sandbox.enter([tree], home, user=user)
for name in ("kept/header.h", "../hidden.h"):
    done = subprocess.run(["cat", str(tree / name)], capture_output=True, text=True, check=False, process_group=0)  # as ninja does
    print(done.stdout)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_a_compiler_reads_what_its_candidate_may_read(tmp_path: Path) -> None:
    """A framework's compiler runs under the candidate's user, and an interpreter in /root is for root alone."""
    kept, home = tmp_path / "tree/kept", tmp_path / "home"
    kept.mkdir(parents=True, mode=0o700)
    home.mkdir()
    (kept / "header.h").write_text("may be read")
    (tmp_path / "hidden.h").write_text("may not be read")
    argv = [sys.executable, "-c", ENTER, str(tmp_path / "tree"), str(home)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n") == ["may be read", "", ""]


SECRETS = [path for path in map(Path, ("/etc/shadow", "/etc/gshadow")) if path.exists() and not path.stat().st_mode & 0o4]
LOOK = """
import os, pathlib, sys
from flashcore_ci.worker import sandbox
home = pathlib.Path(sys.argv[2])
os.chown(home, 60_999, 60_999)
sandbox.interpreter_paths = lambda: [pathlib.Path(sys.argv[1])]
sandbox.enter([], home, user=60_999)
print(int(pathlib.Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16))
for name in sys.argv[3:]:
    print(os.path.exists(name) and sandbox._opens(name, os.O_RDONLY))
"""


@pytest.mark.skipif(os.geteuid() != 0 or not SECRETS, reason="only root changes its user, and has secrets")
@pytest.mark.parametrize(("interpreter", "rights"), [("/root", sandbox.READ_SEARCH), ("/usr", 0)])
def test_a_candidate_cannot_read_the_secrets_of_root(interpreter: str, rights: int, tmp_path: Path) -> None:
    """Its errors are in reports that everybody reads. An interpreter in /root is for root alone."""
    argv = [sys.executable, "-c", LOOK, interpreter, str(tmp_path), "/etc/passwd", *map(str, SECRETS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(rights), "True", *["False"] * len(SECRETS)]

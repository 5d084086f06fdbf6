"""The maintainers' script opens eight forged pull requests and expects eight red ones, against a stand-in of GitHub's API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from comment_server import serving
from replayed import ROOT
from scratch_server import REPOSITORY, ScratchServer

FORGE = ROOT / "tools/github/forge.py"
NAMES = ("name", "grant", "skip", "own-gate", "artifact", "signature", "tool", "environment")


@pytest.fixture
def scratch() -> Iterator[ScratchServer]:
    with serving(ScratchServer()) as server:
        yield server


def forge(scratch: ScratchServer, repository: str = REPOSITORY, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"GITHUB_API_URL": scratch.url, "GH_TOKEN": "the-token"}
    argv = [sys.executable, FORGE, repository, "--poll=0.01", *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert "Traceback" not in done.stderr
    return done


def is_clean(scratch: ScratchServer) -> bool:
    return not scratch.branches and all(pull["state"] == "closed" for pull in scratch.pulls.values())


def test_eight_red_and_one_green_is_what_is_expected(scratch: ScratchServer) -> None:
    done = forge(scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "eight forged pull requests are red" in done.stdout
    titles = [pull["title"] for pull in scratch.pulls.values()]
    assert titles == [f"forged: {name}" for name in ("honest", *NAMES)]
    assert is_clean(scratch)


@pytest.mark.parametrize("name", NAMES)
def test_one_that_could_merge_is_named(scratch: ScratchServer, name: str) -> None:
    scratch.states[name] = "clean"
    done = forge(scratch)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert line.split()[1:3] == ["green", name]
    assert is_clean(scratch)


def test_nothing_is_proven_if_the_honest_one_is_red(scratch: ScratchServer) -> None:
    scratch.states["honest"] = "blocked"
    done = forge(scratch)
    assert (done.returncode, "WRONG  red    honest" in done.stdout) == (1, True)


def test_a_check_that_never_ends_is_not_green(scratch: ScratchServer) -> None:
    scratch.running = {"environment"}
    assert forge(scratch, REPOSITORY, "--timeout=0.2").returncode == 0
    scratch.running = {"honest"}
    assert forge(scratch, REPOSITORY, "--timeout=0.2").returncode == 1


def test_only_a_scratch_repository_is_forged_in(scratch: ScratchServer) -> None:
    done = forge(scratch, "flashcore/flashcore-ci")
    assert (done.returncode, scratch.asked) == (2, 0)
    assert "does not end in -scratch" in done.stderr


@pytest.mark.parametrize(
    ("number", "parameters", "message"),
    [
        (0, {"required_approving_review_count": 1}, "asks for a review"),
        (0, {"require_code_owner_review": True}, "asks for a review"),
        (1, {"required_status_checks": [{"context": "gate / required"}]}, "of GitHub Actions"),
        (1, {"required_status_checks": []}, "does not require"),
    ],
)
def test_a_set_up_that_proves_nothing_is_refused(scratch: ScratchServer, number: int, parameters: dict, message: str) -> None:
    scratch.rules[number]["parameters"] |= parameters
    done = forge(scratch)
    assert (done.returncode, message in done.stderr, scratch.pulls, scratch.branches) == (2, True, {}, {})


def test_without_the_organisations_rule_it_says_what_to_expect(scratch: ScratchServer) -> None:
    del scratch.rules[2]
    scratch.states |= dict.fromkeys(("name", "grant", "own-gate", "environment"), "clean")
    done = forge(scratch)
    assert (done.returncode, "no rule `workflows` is in force" in done.stdout) == (1, True)


def test_what_was_opened_is_removed_when_it_fails(scratch: ScratchServer) -> None:
    scratch.fails_at = "signature"
    done = forge(scratch)
    assert (done.returncode, "HTTPError" in done.stderr) == (2, True)
    assert len(scratch.pulls) == 6
    assert is_clean(scratch)


def test_every_forgery_breaks_the_kernel_and_edits_what_exists(scratch: ScratchServer) -> None:
    forge(scratch)
    for name in NAMES:
        written = scratch.written["gate" if name == "own-gate" else name]
        assert "kernel/src/stream.cu" in written, name
        assert len(written) == 2, name


def test_every_forged_workflow_is_one(scratch: ScratchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FORGE.parent))
    import forge as module

    caller = (ROOT / module.CALLER).read_text(encoding="utf-8")
    for forgery in module.FORGERIES:
        for path, edit in forgery.edits.items():
            before = (
                caller if path == module.CALLER else (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
            )
            after = edit(before)
            assert after != before, (forgery.name, path)
            if path.endswith(".yml"):
                content = yaml.safe_load(after)
                assert content["jobs"], forgery.name
                assert all("steps" in job or "uses" in job for job in content["jobs"].values()), forgery.name

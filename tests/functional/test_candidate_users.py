"""The users of candidates' processes."""

from __future__ import annotations

import os

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

"""What the runs of the store's tests hold, and how reading an altered one must end."""

import pytest
from evidence_factories import good_evidence
from factories import make_plan

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.run import read_run

PLAN = make_plan()
EVIDENCE = good_evidence(PLAN)
FILES = {"artifacts/memcheck.log": b"0 errors\n", "artifacts/ncu/report.ncu-rep": bytes(range(256))}


def contents(run):
    names = ("manifest.json", "artifacts/memcheck.log", "artifacts/ncu/report.ncu-rep", "evidence.json", "plan.json")
    return {name: (run / name).read_bytes() for name in names}


def refused(path, words):
    with pytest.raises(EvidenceError, match=words) as caught:
        read_run(path)
    assert "\n" not in str(caught.value)
    assert caught.value.fix

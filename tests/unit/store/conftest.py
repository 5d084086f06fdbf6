"""A run as a folder and packed."""

import pytest
from stored import EVIDENCE, PLAN

from flashcore_ci.store.run import pack, prepare_run, write_run


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    prepare_run(folder, PLAN)
    (folder / "artifacts/ncu").mkdir()
    (folder / "artifacts/ncu/report.ncu-rep").write_bytes(bytes(range(256)))
    (folder / "artifacts/memcheck.log").write_text("0 errors\n")
    write_run(folder, PLAN, EVIDENCE)
    return folder


@pytest.fixture
def packed(run, tmp_path):
    pack(run, tmp_path / "run.tar.xz")
    return tmp_path / "run.tar.xz"

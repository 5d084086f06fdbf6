"""A run as a folder and packed."""

import pytest
from stored import EVIDENCE, FILES, PLAN

from flashcore_ci.store.run import pack, prepare_run, write_run


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    prepare_run(folder, PLAN)
    (folder / "artifacts/ncu").mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    write_run(folder, PLAN, EVIDENCE)
    return folder


@pytest.fixture
def packed(run, tmp_path):
    pack(run, tmp_path / "run.tar.xz")
    return tmp_path / "run.tar.xz"

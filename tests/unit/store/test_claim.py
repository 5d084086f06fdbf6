import json

import pytest

from flashcore_ci.model.errors import CannotCollectError, UsageError
from flashcore_ci.store.claim import MARKER, REPORTS, claim_folder, refuse_foreign


def test_a_new_folder_is_made_and_marked(tmp_path):
    with claim_folder(tmp_path / "a/b"):
        assert (tmp_path / "a/b" / MARKER).exists()
    with claim_folder(tmp_path / "a/b"):
        pass


@pytest.mark.parametrize("name", [*REPORTS, "plan.json", "build", "logs", "artifacts", "thesis.tex"])
def test_a_file_with_our_name_that_we_did_not_write_is_foreign(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError, match=name), claim_folder(tmp_path):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "{}"}


def test_a_marker_does_not_hide_a_foreign_file(tmp_path):
    (tmp_path / MARKER).touch()
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        refuse_foreign(tmp_path)


@pytest.mark.parametrize(("file", "schema"), [("report.json", "report-v1"), ("manifest.json", "run-v1")])
def test_a_folder_from_before_there_were_markers_is_ours(tmp_path, file, schema):
    (tmp_path / file).write_text(json.dumps({"x": 1, "schema": schema}, indent=1))
    (tmp_path / "junit.xml").write_text("")
    refuse_foreign(tmp_path)


def test_a_second_run_is_refused_and_names_the_first(tmp_path):
    with (
        claim_folder(tmp_path / "r"),
        pytest.raises(UsageError, match=r"another run \(process \d+\)"),
        claim_folder(tmp_path / "r"),
    ):
        pass


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError), claim_folder(tmp_path / "x"):
        pass
    with pytest.raises(CannotCollectError), claim_folder(tmp_path / "x/y"):
        pass


def test_a_marker_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / MARKER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotCollectError), claim_folder(tmp_path / "r"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "kept"

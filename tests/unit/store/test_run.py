import os
import shutil
import tarfile
from dataclasses import replace

import pytest
from stored import EVIDENCE, FILES, PLAN, contents, refused

from flashcore_ci.model.errors import CannotCollectError, EvidenceError, UsageError
from flashcore_ci.store import legacy, manifest
from flashcore_ci.store import run as run_module
from flashcore_ci.store.codec import encode
from flashcore_ci.store.manifest import Manifest, member_of
from flashcore_ci.store.run import REPORTS, Run, pack, prepare_run, read_run, write_run


class TestRoundTrip:
    def test_folder(self, run):
        assert read_run(run) == Run(plan=PLAN, evidence=EVIDENCE, files=FILES)

    def test_bundle(self, packed):
        assert read_run(packed) == Run(plan=PLAN, evidence=EVIDENCE, files=FILES)

    def test_packing_twice_gives_the_same_bytes_whatever_the_dates(self, run, packed, tmp_path):
        for path in (run / "plan.json", run / "artifacts/memcheck.log"):
            os.utime(path, (1, 1))
            path.chmod(0o600)
        pack(run, tmp_path / "again.tar.xz")
        assert (tmp_path / "again.tar.xz").read_bytes() == packed.read_bytes()

    def test_reports_and_builds_may_lie_beside_and_are_not_packed(self, run, tmp_path):
        (run / "build").mkdir()
        for name in REPORTS:
            (run / name).write_text("x")
        read_run(run)
        pack(run, tmp_path / "x.tar.xz")
        with tarfile.open(tmp_path / "x.tar.xz") as archive:
            assert archive.getnames() == [
                "manifest.json",
                "artifacts/memcheck.log",
                "artifacts/ncu/report.ncu-rep",
                "evidence.json",
                "plan.json",
            ]

    def test_a_run_without_artifacts(self, tmp_path):
        write_run(tmp_path / "r", PLAN, EVIDENCE)
        assert read_run(tmp_path / "r").plan == PLAN


class TestPack:
    def test_a_file_that_is_something_else_is_not_replaced(self, run, tmp_path):
        (tmp_path / "x").write_text("years")
        with pytest.raises(UsageError, match="is not this run"):
            pack(run, tmp_path / "x")
        assert (tmp_path / "x").read_text() == "years"

    @pytest.mark.parametrize("name", ["run/x", "run/artifacts/x", "link/x"])
    def test_a_file_inside_the_run_would_spoil_it(self, run, tmp_path, name):
        (tmp_path / "link").symlink_to(run)
        with pytest.raises(UsageError, match="is inside the run"):
            pack(run, tmp_path / name)
        read_run(run)

    def test_the_same_bundle_may_be_written_again(self, run, tmp_path):
        pack(run, tmp_path / "x")
        pack(run, tmp_path / "x")


class TestPrepare:
    def test_what_an_earlier_run_left_goes(self, run):
        (run / "junit.xml").write_text("old")
        prepare_run(run, PLAN)
        assert sorted(path.name for path in run.iterdir()) == [".flashcore-ci", "artifacts", "plan.json"]
        assert not list((run / "artifacts").iterdir())

    def test_an_unfinished_run_is_no_run_but_may_be_used_again(self, tmp_path):
        prepare_run(tmp_path / "r", PLAN)
        refused(tmp_path / "r", "manifest.json")
        prepare_run(tmp_path / "r", PLAN)

    @pytest.mark.parametrize("name", ["thesis.tex", "artifacts"])
    def test_nothing_of_others_is_deleted(self, tmp_path, name):
        (tmp_path / name).mkdir()
        with pytest.raises(UsageError, match=name):
            prepare_run(tmp_path, PLAN)
        assert (tmp_path / name).exists()

    def test_an_artifact_that_the_manifest_does_not_list_is_foreign(self, run):
        (run / "artifacts/notes.txt").write_text("years")
        with pytest.raises(UsageError, match=r"did not write artifacts/notes\.txt"):
            prepare_run(run, PLAN)
        (run / "manifest.json").unlink()  # as an interrupted run
        prepare_run(run, PLAN)

    @pytest.mark.parametrize("name", ["artifacts", "logs"])
    def test_a_link_in_the_place_of_our_folder_is_foreign(self, run, tmp_path, name):
        shutil.rmtree(run / "artifacts")
        (run / name).symlink_to(tmp_path)
        with pytest.raises(UsageError, match=f"did not write {name}"):
            prepare_run(run, PLAN)
        assert (run / "evidence.json").exists()

    def test_a_link_among_artifacts_hides_no_foreign_file(self, run, tmp_path):
        (run / "artifacts/notes.txt").write_text("years")
        (run / "artifacts/link").symlink_to(tmp_path)
        with pytest.raises(UsageError, match="link"):
            prepare_run(run, PLAN)
        assert (run / "artifacts/notes.txt").exists()

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "x").write_text("")
        with pytest.raises(UsageError):
            prepare_run(tmp_path / "x", PLAN)

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "x").write_text("")
        with pytest.raises(CannotCollectError):
            prepare_run(tmp_path / "x/y", PLAN)


class TestAlteredFolder:
    @pytest.mark.parametrize("name", ["plan.json", "evidence.json", "artifacts/memcheck.log", "artifacts/ncu/report.ncu-rep"])
    def test_a_flipped_byte(self, run, name):
        data = bytearray((run / name).read_bytes())
        data[len(data) // 2] ^= 1
        (run / name).write_bytes(data)
        refused(run, f"{name} was altered")

    @pytest.mark.parametrize("name", ["plan.json", "evidence.json", "artifacts/memcheck.log"])
    def test_a_missing_file(self, run, name):
        (run / name).unlink()
        refused(run, f"{name} is missing")

    def test_a_cut_file(self, run):
        (run / "evidence.json").write_bytes((run / "evidence.json").read_bytes()[:-1])
        refused(run, "evidence.json was altered")

    @pytest.mark.parametrize("name", ["artifacts/more.log", "more.json"])
    def test_a_file_too_many(self, run, name):
        (run / name).write_text("")
        refused(run, f"{name} is not in the manifest")

    @pytest.mark.parametrize("name", ["plan.json", "artifacts/memcheck.log", "manifest.json"])
    def test_a_link(self, run, name, tmp_path):
        (tmp_path / "elsewhere").write_bytes((run / name).read_bytes())
        (run / name).unlink()
        (run / name).symlink_to(tmp_path / "elsewhere")
        refused(run, "neither a file nor a folder|not a plain file")

    def test_a_linked_folder(self, run, tmp_path):
        (run / "artifacts").rename(tmp_path / "elsewhere")
        (run / "artifacts").symlink_to(tmp_path / "elsewhere")
        refused(run, "neither a file nor a folder")

    def test_a_device(self, run):
        os.mkfifo(run / "artifacts/pipe")
        refused(run, "neither a file nor a folder")

    def test_a_manifest_of_another_version(self, run):
        text = (run / "manifest.json").read_text()
        (run / "manifest.json").write_text(text.replace("run-v1", "run-v2"))
        refused(run, "schema")

    def test_evidence_of_another_version_with_a_matching_manifest(self, run):
        text = (run / "evidence.json").read_bytes()
        (run / "evidence.json").write_bytes(text.replace(b"evidence-v2", b"evidence-v3"))
        remanifest(run)
        refused(run, "evidence.json: schema")

    def test_no_run_at_all(self, tmp_path):
        refused(tmp_path, "manifest.json")
        refused(tmp_path / "nowhere", "cannot read")

    def test_files_that_cannot_be_listed(self, run, monkeypatch):
        def refuse(path):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(run_module, "_walk", refuse)
        refused(run, "Permission denied")

    def test_a_file_that_is_too_large(self, run, monkeypatch):
        monkeypatch.setattr(run_module, "MAX_BYTES", 10)
        refused(run, "too large")

    @pytest.mark.parametrize(
        "path", ["../plan.json", "/etc/passwd", "artifacts/../x", "artifacts//x", "artifacts", "a\\b", "artifacts/a\nb"]
    )
    def test_a_name_that_leads_elsewhere(self, run, path):
        files = (*(member_of(n, (run / n).read_bytes()) for n in ("evidence.json", "plan.json")), member_of(path, b""))
        with pytest.raises(EvidenceError, match="not a file of a run"):
            manifest.verify_files(
                encode(Manifest(files=files)),
                [file.path for file in files],
                lambda name: (run / name).read_bytes() if name.endswith("e.json") or name == "plan.json" else b"",
                where="r",
            )

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda files: (*files, files[0]), "listed twice"),
            (lambda files: (replace(files[0], size=-1), *files[1:]), "impossible"),
            (lambda files: (replace(files[0], size=1 << 60), *files[1:]), "impossible"),
            (lambda files: tuple(file for file in files if file.path != "plan.json"), "plan.json is missing"),
            (lambda files: (replace(files[0], size=files[0].size + 1), *files[1:]), "was altered"),
        ],
    )
    def test_a_manifest_that_contradicts_itself(self, run, change, words):
        remanifest(run, change)
        refused(run, words)


def remanifest(run, change=lambda files: files):
    names = [name for name in contents(run) if name != "manifest.json"]
    files = change(tuple(member_of(name, (run / name).read_bytes()) for name in names))
    (run / "manifest.json").write_bytes(encode(Manifest(files=files)))


class TestFirstSchema:
    def test_only_known_files_are_read(self, run):
        text = (run / "evidence.json").read_bytes()
        (run / "evidence.json").write_bytes(text.replace(b"evidence-v2", b"evidence-v1"))
        remanifest(run)
        refused(run, "evidence-v1 is no longer read")

    def test_the_mark_is_found_at_the_end_only(self):
        assert legacy.is_v1(b'{"a": 1, "schema": "evidence-v1"\n}\n')
        assert not legacy.is_v1(b'{"a": "\\"schema\\": \\"evidence-v1\\"", "schema": "evidence-v2"\n}\n')


def test_a_plan_that_was_read_is_written_byte_for_byte(run, tmp_path):
    (run / "plan.json").write_bytes((run / "plan.json").read_bytes() + b"\n")
    remanifest(run)
    first, second = read_run(run), read_run(run)
    assert first.plan is second.plan
    prepare_run(tmp_path / "two", second.plan)
    write_run(tmp_path / "two", second.plan, EVIDENCE)
    assert read_run(tmp_path / "two").plan_digest == first.plan_digest

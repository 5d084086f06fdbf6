import io
import lzma
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from evidence_factories import good_evidence
from factories import make_plan
from stored import EVIDENCE, PLAN, contents, refused

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store import bundle
from flashcore_ci.store.run import pack, write_run


class TestAlteredBundle:
    def test_a_flipped_byte_anywhere(self, tmp_path):
        write_run(tmp_path / "r", make_plan(()), good_evidence(make_plan(())))
        pack(tmp_path / "r", tmp_path / "r.tar.xz")
        data = (tmp_path / "r.tar.xz").read_bytes()
        for position in range(len(data)):
            altered = bytearray(data)
            altered[position] ^= 1 << position % 8
            (tmp_path / "r.tar.xz").write_bytes(altered)
            refused(tmp_path / "r.tar.xz", "r.tar.xz")

    @pytest.mark.parametrize("cut", [0, 1, 100, -1])
    def test_a_cut_file(self, packed, cut):
        packed.write_bytes(packed.read_bytes()[:cut])
        refused(packed, "it was cut|not a packed run")

    def test_bytes_after_the_end(self, packed):
        packed.write_bytes(packed.read_bytes() + b"\0\0\0\0")
        refused(packed, "bytes follow its end")

    def test_junk(self, packed):
        packed.write_bytes(b"junk" * 100)
        refused(packed, "not a packed run")

    def test_compressed_junk(self, packed):
        packed.write_bytes(lzma.compress(b"junk" * 1000))
        refused(packed, "not a packed run")

    def test_a_bomb(self, packed, monkeypatch):
        monkeypatch.setattr(bundle, "MAX_BYTES", 1 << 20)
        packed.write_bytes(lzma.compress(bytes(2 << 20)))
        refused(packed, "too large")

    def test_a_file_larger_than_any_run(self, packed, monkeypatch):
        monkeypatch.setattr(bundle, "MAX_PACKED_BYTES", 100)
        refused(packed, "too large")

    def test_no_manifest(self, packed):
        packed.write_bytes(bundle.pack_files({"plan.json": b""}))
        refused(packed, "no manifest")

    def test_a_file_that_the_manifest_does_not_list(self, packed, run):
        packed.write_bytes(bundle.pack_files({**contents(run), "artifacts/more": b""}))
        refused(packed, "artifacts/more is not in the manifest")

    @pytest.mark.parametrize("name", ["../x", "/x", "artifacts/../../x", "x.json", "artifacts"])
    def test_a_name_that_leads_elsewhere(self, packed, run, name):
        packed.write_bytes(bundle.pack_files({**contents(run), name: b""}))
        refused(packed, "not a file of a run")

    @pytest.mark.parametrize(
        "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.CONTTYPE]
    )
    def test_links_devices_and_folders(self, packed, run, kind):
        packed.write_bytes(tarred(run, changed("artifacts/x", type=kind, linkname="plan.json")))
        refused(packed, "not a plain file")

    def test_the_same_name_twice(self, packed, run):
        packed.write_bytes(tarred(run, changed("plan.json")))
        refused(packed, "given twice")

    @pytest.mark.parametrize("change", [{"mtime": 1}, {"uid": 1}, {"uname": "root"}, {"mode": 0o4755}])
    def test_owners_dates_and_modes(self, packed, run, change):
        packed.write_bytes(tarred(run, changed("artifacts/x", **change)))
        refused(packed, "more than a run's files")

    def test_a_size_beyond_the_archive(self, packed, run):
        packed.write_bytes(tarred(run, changed("artifacts/x", size=1 << 40), format=tarfile.GNU_FORMAT))
        refused(packed, "not a plain file")

    def test_a_name_too_long_for_a_tar_is_said_when_packing(self, run, tmp_path):
        (run / "artifacts" / ("x" * 200)).write_text("")
        write_run(run, PLAN, EVIDENCE)
        with pytest.raises(EvidenceError, match="too long"):
            pack(run, tmp_path / "x")

    def test_an_altered_run_is_not_packed(self, run, tmp_path):
        (run / "plan.json").write_text("{}")
        with pytest.raises(EvidenceError):
            pack(run, tmp_path / "x")
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "files", [{}, {"plan.json": b""}, {"plan.json": bytes(512), "artifacts/ä": b"1" * 513, "artifacts/x": b"2"}]
)
def test_a_tar_has_the_bytes_of_the_standard_library(files):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as archive:
        for name, data in files.items():
            archive.addfile(changed(name, size=len(data)), io.BytesIO(data))
    assert lzma.decompress(bundle.pack_files(files)) == target.getvalue()


def test_each_bundle_keeps_its_own_plan(tmp_path):
    """Plans of equal size, in threads that share the last one read."""
    plans = [bytes([number]) * 4096 for number in range(4)]
    for plan in plans:
        (tmp_path / str(plan[0])).write_bytes(bundle.pack_files({"manifest.json": b"{}", "plan.json": plan}))
    with ThreadPoolExecutor(4) as pool:
        read = pool.map(lambda plan: bundle.unpack(tmp_path / str(plan[0]))["plan.json"], plans * 50)
        assert list(read) == plans * 50


def changed(name, **changes):
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    for key, value in changes.items():
        setattr(info, key, value)
    return info


def tarred(run, info, format=tarfile.USTAR_FORMAT):  # noqa: A002 - tarfile's own name
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as archive:
        for name, data in contents(run).items():
            archive.addfile(changed(name, size=len(data)), io.BytesIO(data))
        archive.addfile(info)
    return lzma.compress(target.getvalue())

import hashlib
import os
import re
from importlib import resources
from pathlib import Path

import pytest

from flashcore_ci.build import programs, toolchain
from flashcore_ci.cli import options
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.store import codec


def install(home: Path) -> Path:
    """What a whole installation leaves, without its tools."""
    folder = home / "toolchains" / toolchain.lock_digest()[:12]
    folder.mkdir(parents=True)
    record = toolchain.ToolVersions(nvcc="13.0.88", sanitizer="2026.4.0.0")
    (folder / "toolchain.json").write_bytes(codec.encode(record))
    for name, content in PROGRAMS.items():
        (folder / "nvidia/cu13" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "nvidia/cu13" / name).write_bytes(content)
    return folder


PROGRAMS = {
    "bin/nvcc": b"compiler",
    "bin/nvcc.profile": b"TOP = x",
    "nvvm/bin/cicc": b"front end",
    "lib/libcudart_static.a": b"run",
}


@pytest.fixture(autouse=True)
def _pinned(monkeypatch):
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in PROGRAMS.items()}
    monkeypatch.setattr(programs, "pinned_programs", lambda version: digests)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replaced_program_is_refused_whatever_its_date(tmp_path, name):
    file = install(tmp_path) / "nvidia/cu13" / name
    status = file.stat()
    file.write_bytes(bytes(reversed(PROGRAMS[name])))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CannotCollectError, match=f"{name} was changed") as caught:
        toolchain.find(tmp_path)
    assert "flashcore-ci toolchain install" in caught.value.fix


def test_a_missing_and_an_added_program_are_refused(tmp_path):
    cuda = install(tmp_path) / "nvidia/cu13"
    (cuda / "bin/gcc").write_bytes(b"found before the machine's compiler")
    with pytest.raises(CannotCollectError, match="bin/gcc is not part of the pinned"):
        toolchain.find(tmp_path)
    (cuda / "bin/gcc").unlink()
    (cuda / "bin/nvcc.profile").unlink()
    with pytest.raises(CannotCollectError, match=r"nvcc\.profile is missing"):
        toolchain.find(tmp_path)


def test_the_machines_own_tools_are_known_by_their_bytes(tmp_path):
    cuda = install(tmp_path) / "nvidia/cu13"
    before = programs.check_programs(cuda, {})
    (cuda / "nvvm/bin/cicc").write_bytes(b"front ens")
    assert programs.check_programs(cuda, {}) != before


@pytest.mark.parametrize("version", toolchain.VERSIONS)
def test_the_shipped_list_names_the_programs_that_run(version):
    file = resources.files(programs.__package__).joinpath(f"toolchain-{version}-x86_64.sha256")
    lines = file.read_text(encoding="utf-8").splitlines()
    names = {line.partition("  ")[2] for line in lines}
    assert {"bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvdisasm", "nvvm/bin/cicc"} <= names
    assert {"compute-sanitizer/compute-sanitizer", "lib/libcudart_static.a"} <= names


@pytest.mark.parametrize("version", toolchain.VERSIONS)
def test_every_part_is_pinned_with_hashes(version):
    requirements = re.sub(r"\\\n", " ", toolchain.lock_text(version))
    lines = [line for line in requirements.splitlines() if line and not line.startswith("#")]
    assert len(lines) == 8
    for line in lines:
        assert re.fullmatch(r"[a-z-]+==[\d.]+(\s+--hash=sha256:[0-9a-f]{64}){1,2}", line), line


def test_pip_may_install_nothing_but_the_pins():
    argv = toolchain.pip_argv("/v/python", pins=Path("/w/lock"), target=Path("/w/root"))
    assert argv[:4] == ("/v/python", "-m", "pip", "install")
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(argv)


def test_a_whole_installation_is_found_without_starting_it(tmp_path):
    folder = install(tmp_path)
    found = toolchain.find(tmp_path)
    assert found.nvcc == folder / "nvidia/cu13/bin/nvcc"
    assert (found.version, found.sanitizer_version, found.compiler) == ("13.0.88", "2026.4.0.0", "nvcc 13.0.88")
    assert re.fullmatch("[0-9a-f]{64}", found.digest)


def test_present_is_enough_for_install(tmp_path):
    install(tmp_path)
    assert toolchain.install(tmp_path, "no python is needed", print) == toolchain.find(tmp_path)


@pytest.mark.parametrize("text", [None, "", "{}", '{"nvcc": "13.0.88", "sanitizer": "", "schema": "toolchain-v2"}'])
def test_without_its_marker_an_installation_is_none(tmp_path, text):
    marker = install(tmp_path) / "toolchain.json"
    marker.unlink()
    if text is not None:
        marker.write_text(text)
    assert toolchain.find(tmp_path) is None


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("/usr/bin/python3: No module named pip\n", "this Python has no pip"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", "the disk is full"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n",
            "a downloaded file does not match its pinned hash",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution found for x\n",
            "the package index cannot be reached",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\nERROR: No matching distribution found for x\n",
            "the package index is unreachable or lacks the pinned packages",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement x==9 (from versions: 8)\nERROR: No matching distribution found for x\n",
            "the package index does not have the pinned versions",
        ),
        ("ERROR: first\nERROR: second\nnote\n", "pip failed: ERROR: second"),
        ("", "pip failed: no output"),
    ],
)
def test_pips_failures_in_one_line(output, message):
    found, fix = toolchain.explain_pip_failure(output)
    assert found == message
    assert fix


def test_the_toolchains_are_installed_next_to_each_other_and_chosen_by_name(tmp_path):
    assert [toolchain.version_of(name) for name in ("pip", "13.0", "13.5")] == ["13.0", "13.0", "13.5"]
    assert len({toolchain._folder(tmp_path, version) for version in toolchain.VERSIONS}) == 2
    install(tmp_path)
    assert toolchain.find(tmp_path, "13.0") is not None
    assert toolchain.find(tmp_path, "13.5") is None


def test_the_command_line_offers_exactly_the_pinned_versions():
    assert options.PINNED == toolchain.VERSIONS


def test_a_statement_names_the_pins_of_the_compiler_that_ran():
    assert toolchain.version_with({"nvcc 13.5.37"}) == "13.5"
    assert toolchain.version_with({"nvcc 13.0.88"}) == "13.0"
    assert toolchain.version_with({"nvcc 12.8.93"}) == toolchain.DEFAULT


@pytest.mark.parametrize(("version", "floor"), [("13.0.88", 580), ("13.5.37", 580), ("12.8.93", 525), ("14.0.1", 580), ("", 580)])
def test_the_driver_floor_follows_the_toolchain(version, floor):
    assert toolchain.driver_floor(version) == floor

import re
from pathlib import Path

import pytest

from flashcore_ci.build import toolchain
from flashcore_ci.store import codec


def install(home: Path) -> Path:
    """What a whole installation leaves, without its tools."""
    folder = home / "toolchains" / toolchain.lock_digest()[:12]
    folder.mkdir(parents=True)
    record = toolchain.ToolVersions(nvcc="13.0.88", sanitizer="2026.4.0.0")
    (folder / "toolchain.json").write_bytes(codec.encode(record))
    return folder


def test_every_part_is_pinned_with_hashes():
    requirements = re.sub(r"\\\n", " ", toolchain.lock_text())
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
    assert found.digest.startswith(folder.name)


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

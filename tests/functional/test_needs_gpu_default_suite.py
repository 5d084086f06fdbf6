"""Which changes of this repository need the GPU job, by its default suite and its recorded evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from repository import SUITE, Copy

from flashcore_ci.adapters import clock
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.run import statement as statements
from flashcore_ci.store import bundle
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.manifest import MANIFEST, manifest_of
from flashcore_ci.store.run import EVIDENCE

RECORDED = "gates/evidence/nvidia-h200-hopper.tar.xz"
LOCK = ".github/locks/measure.lock"
SUBJECT, BINDING = "kernel/subjects/e4m3.py", "kernel/flashcore/_kvcache.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("default-suite") / "repository")


@pytest.fixture(scope="module")
def measured(repository: Copy) -> Path:
    """The recorded evidence as one that was collected now at `main`, next to its statement."""
    files = bundle.unpack(repository.folder / RECORDED)
    del files[MANIFEST]
    evidence = decode(Evidence, files[EVIDENCE], where=EVIDENCE)
    here = {"commit": repository.git("rev-parse", "main"), "collected_at": clock.now()}
    files[EVIDENCE] = encode(replace(evidence, provenance=replace(evidence.provenance, **here)))
    files[MANIFEST] = encode(manifest_of(sorted(files.items())))
    file = repository.folder.with_name("gpu.tar.xz")
    file.write_bytes(bundle.pack_files(dict(sorted(files.items()))))
    file.with_suffix(".json").write_bytes(statements.expected(file, invocation="https://github.com/a/b/actions/runs/41"))
    return file


def decided(repository: Copy, evidence: Path, changed: str, line: str) -> dict[str, object]:
    """Decide on a commit that appends a line to a file, without a compiler."""
    repository.git("checkout", "--quiet", "-B", "change", "main")
    with (repository.folder / changed).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    repository.commit("change a file")
    home = evidence.parent / "home"
    environment, repository.environment = repository.environment, {**repository.environment, "FLASHCORE_CI_HOME": str(home)}
    done = repository.tool("needs-gpu", evidence, "--base", "main", "--statement", evidence.with_suffix(".json"), "--json")
    repository.environment = environment
    assert not any((home / name).exists() for name in ("toolchains", "cache"))
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (11 if found["needed"] else 0)
    return found


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ("docs/start.md", "One more line."),
        ("kernel/README.md", "One more line."),
        ("kernel/src/attention.cu", "// a comment"),
        (BINDING, "# a comment"),
    ],
)
def test_documentation_and_comments_need_no_gpu(repository: Copy, measured: Path, changed: str, line: str) -> None:
    started = clock.monotonic()
    found = decided(repository, measured, changed, line)
    assert (found["needed"], found["code"]) == (False, "same-code"), found
    assert clock.monotonic() - started < 10


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (SUBJECT, "subject-rewritten"),
        ("gates/waivers.toml", "suite-changed"),
        ("gates/baselines/nvidia-h200-580.159.04-not-locked.json", "suite-changed"),
        ("gates/noise/nvidia-h200.json", "suite-changed"),
        (SUITE, "suite-changed"),
        (RECORDED, "suite-changed"),
        ("pyproject.toml", "project-changed"),
        (LOCK, "tool-changed"),
        (".github/workflows/trusted.yml", "tool-changed"),
        ("flashcore_ci/worker/__init__.py", "tool-changed"),
        (BINDING, "subject-rewritten"),
        ("kernel/variants.toml", "unknown-change"),
    ],
)
def test_what_a_measurement_rests_on_starts_the_gpu_job(repository: Copy, measured: Path, changed: str, code: str) -> None:
    found = decided(repository, measured, changed, "# a comment" if changed == SUBJECT else "A = 1")
    assert (found["needed"], found["code"], found["only"]) == (True, code, []), found
    assert changed in str(found["reason"])

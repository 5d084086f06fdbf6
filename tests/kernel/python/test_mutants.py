"""Every edit of every mutant fits the sources of today, and changes them."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from flashcore_ci.suite.loader import load
from flashcore_ci.worker import file_reads

ROOT = Path(__file__).parents[3]
TABLE = tomllib.loads((ROOT / "kernel/defects/mutants.toml").read_text(encoding="utf-8"))
LISTS = re.compile(r'^#include "(flashcore/\w+/\w*variants\.h)"', re.MULTILINE)
NAMES = [mutant["name"] for mutant in TABLE["mutant"]]


def subject(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mutant_{name.replace('-', '_')}", ROOT / "kernel/defects/mutant.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.SUBJECT = name
    return module


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "kernel", folder / "kernel", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_is_the_real_kernel_with_its_edits(root: Path, name: str) -> None:
    build = subject(name).build(root)
    entry, *first = build["entries"]
    kind = "prepare" if "paged" in entry["source"] else "helper" if "/flashcore_e4m3_" in entry["source"] else ""
    assert [spec["symbol"] for spec in first] == ([f"{entry['symbol']}_{kind}"] if kind else [])
    assert len([file for file in build["launchers"] if "varlen" in file]) == bool(kind)
    assert entry["symbol"] == f"mutant_{name.replace('-', '_')}"
    assert f"{entry['symbol']}_variant = " in (root / entry["source"]).read_text(encoding="utf-8")
    assert build["includes"] == [f"build/mutants/{name}/include", "kernel/include"]
    for file, _, new in next(mutant for mutant in TABLE["mutant"] if mutant["name"] == name)["edits"]:
        assert new in (root / f"build/mutants/{name}" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_lists_no_other_entry_function(root: Path, name: str) -> None:
    """Or its library would need entry functions that it does not build."""
    build = subject(name).build(root)
    texts = [(root / file).read_text(encoding="utf-8") for file in build["launchers"]]
    own = f"build/mutants/{name}/include"
    headers = {root / own / name for text in texts for name in LISTS.findall(text)}
    headers |= set((root / own).rglob("*variants.h"))
    listed = {variant for path in headers for variant in re.findall(r"X\((\w+)_variant\)", path.read_text(encoding="utf-8"))}
    assert listed <= {entry["symbol"] for entry in build["entries"]}


def test_nothing_is_written_where_nothing_changed(root: Path) -> None:
    subject("lse-wrong").build(root)
    file = root / "build/mutants/lse-wrong/include/flashcore/attention/epilogue.cuh"
    before = file.stat().st_mtime_ns
    subject("lse-wrong").build(root)
    assert file.stat().st_mtime_ns == before


def test_what_an_earlier_form_of_the_mutant_edited_is_removed(root: Path) -> None:
    """Its header would come before the original's on the include path."""
    stale = root / "build/mutants/lse-wrong/include/flashcore/attention/producer.cuh"
    stale.parent.mkdir(parents=True, exist_ok=True)
    stale.write_text("#error", encoding="utf-8")
    subject("lse-wrong").build(root)
    assert not stale.exists()


def test_an_edit_that_does_not_fit_any_more_is_refused(root: Path) -> None:
    file = root / "kernel/include/flashcore/attention/epilogue.cuh"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("params.scale,", "params.factor,"), encoding="utf-8")
    try:
        with pytest.raises(ValueError, match=r"lse-wrong: kernel/include/flashcore/attention/epilogue\.cuh has .* 0 times"):
            subject("lse-wrong").build(root)
    finally:
        file.write_text(text, encoding="utf-8")


def test_a_name_that_is_no_mutant_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="has 0 mutants of this name"):
        subject("nothing-at-all").build(root)


def test_a_mutant_without_edits_is_a_control_or_an_edit_of_python_code() -> None:
    """Every control must pass. What has an edit of Python code has the sound kernel."""
    edits = subject(NAMES[0])._load("flashcore_mutant_edits", "kernel/defects/edits.py").EDITS
    unedited = {mutant["name"]: mutant["what"] for mutant in TABLE["mutant"] if not mutant["edits"]}
    controls = {name for name, what in unedited.items() if what.startswith("no defect")}
    assert set(unedited) - controls == set(edits)
    clean, of_features = (
        tomllib.loads((ROOT / f"gates/{name}.toml").read_text(encoding="utf-8"))["clean"]
        for name in ("selftest", "feature-selftest")
    )
    missing = {
        name for name in controls if not any(fnmatch.fnmatch(f"mutant_{name.replace('-', '_')}", pattern) for pattern in clean)
    }
    assert {name for name in missing if not any(fnmatch.fnmatch(name, pattern) for pattern in of_features)} == set()


def test_every_mutant_is_in_a_suite() -> None:
    suites = (load(file, root=ROOT) for file in (ROOT / "gates").glob("*defects.toml"))
    names = {reference.name for suite in suites for reference in suite.subjects}
    assert set(NAMES) <= {*names, *(name.replace("accuracy-", "e4m3-") for name in names)}  # as e4m3_accuracy.py names them


def test_every_counted_defect_has_a_control_of_the_same_workload() -> None:
    """Without one a wrong count of the reference looks like the defect."""
    rows = [dict(workload.params) for workload in load(ROOT / "gates/feature-defects.toml", root=ROOT).workloads]
    controls = {mutant["name"] for mutant in TABLE["mutant"] if mutant["what"].startswith("no defect")}
    counted = [(row.pop("defect"), row) for row in rows if row.get("counted")]
    sound = [row for defect, row in counted if defect in controls]
    assert {defect for defect, _ in counted} > {"window-not-skipped", "decode-window-not-skipped", "decode-chunk-not-skipped"}
    assert all(row in sound for _, row in counted)


def test_every_mutant_has_an_entry_function() -> None:
    entries = subject(NAMES[0])._load("flashcore_mutant_entries", "kernel/defects/entries.py").ENTRIES
    assert list(entries) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_reads_no_data_while_it_is_measured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The worker refuses a subject that does, as no digest covers what it reads."""
    module = subject(name)
    module._load_original(module._get_entry())  # what it imports is read once per process, whichever test is first
    for seen in ("_as_data", "_by_import"):
        monkeypatch.setattr(file_reads, seen, set())
    monkeypatch.setattr(file_reads, "_watched", [])
    file_reads.watch(ROOT)
    entry = module._get_entry()
    assert module._load_original(entry).problem
    with file_reads.unrecorded():
        declared = {file_reads.resolved(str(ROOT / file)) for file in (module.ENTRIES, module._get_file(entry))}
        assert not file_reads.undeclared(declared, set())

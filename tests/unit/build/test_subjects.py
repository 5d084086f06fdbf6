"""Entry functions that a subject's sources define and its ``build()`` does not name."""

from dataclasses import replace
from pathlib import Path

import pytest
from factories import make_description, make_entry_spec

from flashcore_ci.adapters import nvcc, nvdisasm
from flashcore_ci.build.objects import CompiledEntry, CompiledUnit
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.subjects import _check_paths, _entry_evidence, find_unnamed_entries
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.evidence import CompileError

KERNEL, LAUNCHER = "kernel/scale_f32.cu", "kernel/scale.cu"
SPEC = make_description().build
BROKEN = CompileError(file=LAUNCHER, line=3, message='identifier "seven" is undefined')


def unit(*symbols: str) -> CompiledUnit:
    code = nvdisasm.Function(name="", opcodes=(), waits=0, unfenced_tma_stores=0, highest_register=0)
    entries = tuple(CompiledEntry(symbol=symbol, resources=nvcc.PtxasInfo(), code=code) for symbol in symbols)
    return CompiledUnit(
        key="key",
        digest="object",
        machine_code="code",
        host_code="host",
        preprocessed="text",
        host_object="object",
        system_files=(),
        system="system",
        entries=entries,
    )


def test_sources_that_define_only_named_entries_are_accepted() -> None:
    assert find_unnamed_entries(SPEC, {KERNEL: unit("scale_f32"), LAUNCHER: unit()}) == []


@pytest.mark.parametrize(
    ("units", "file", "symbol"),
    [
        ({KERNEL: unit("scale_f32", "scale_f16"), LAUNCHER: unit()}, KERNEL, "scale_f16"),
        ({KERNEL: unit("scale_f32"), LAUNCHER: unit("fill")}, LAUNCHER, "fill"),
        ({KERNEL: unit("scale_f32"), LAUNCHER: unit("scale_f32")}, LAUNCHER, "scale_f32"),
    ],
)
def test_an_unnamed_entry_is_an_error_with_source_symbol_and_fix(units, file, symbol) -> None:
    (error,) = find_unnamed_entries(SPEC, units)
    assert (error.file, error.line) == (file, 0)
    assert error.message.startswith(f"defines the entry function {symbol}, ")
    assert error.message.endswith("name it in `entries`, or remove it")


def test_a_source_that_does_not_compile_defines_nothing() -> None:
    assert find_unnamed_entries(SPEC, {KERNEL: unit("scale_f32"), LAUNCHER: BROKEN}) == []


def test_several_entries_of_one_source_may_all_be_named() -> None:
    entries = tuple(make_entry_spec(symbol, source=KERNEL) for symbol in ("a", "b"))
    spec = type(SPEC)(library="l", launchers=(), includes=(), binding=(), entries=entries)
    assert find_unnamed_entries(spec, {KERNEL: unit("a", "b")}) == []


@pytest.mark.parametrize(("name", "accepted"), [("sm_90a", True), ("sm_80", True), ("sm_86", False), ("sm_120", False)])
def test_shared_memory_that_no_block_of_the_architecture_has_is_an_error(name: str, accepted: bool) -> None:
    spec = make_entry_spec("scale_f32", dynamic_shared_bytes=99 * 1024 + 1)
    found = _entry_evidence(spec, unit("scale_f32"), name)
    assert isinstance(found, CompileError) != accepted
    if not accepted:
        message = f"scale_f32 takes 101377 byte of shared memory per block, and {name} has at most 101376"
        assert found == CompileError(file=spec.source, line=0, message=message)


def test_a_binding_must_name_what_it_imports(tmp_path: Path) -> None:
    """A process may run another subject that names the file. So the worker would not see that this one does not."""
    files = {
        "kernel/scale.py": "from package import binding\n",
        "package/binding.py": "import package.packed\n",
        "package/packed.py": "",
    }
    for name, text in {**files, "kernel/scale.cu": "", "kernel/scale_f32.cu": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    of = replace(make_description(), file="kernel/scale.py")
    named = replace(of, build=replace(SPEC, includes=(), binding=("package/binding.py", "package/packed.py")))
    _check_paths([named], Sources(tmp_path))
    lacking = replace(of, build=replace(SPEC, includes=(), binding=("package/binding.py",)))
    with pytest.raises(SuiteError) as error:
        _check_paths([named, lacking], Sources(tmp_path))
    assert error.value.problems == ("kernel/scale.py: build: binding lacks package/packed.py, which package/binding.py imports",)

"""Machine code that a framework compiled, as evidence."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from factories import make_build, make_workload

from flashcore_ci.adapters import elf, nvdisasm
from flashcore_ci.build import objects
from flashcore_ci.collect import isolation, machine_code
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.jit import LIBRARY, is_complete
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind

RECORDINGS = Path(__file__).parents[2] / "recordings/nvcc"
SPILLING, SCALE = f"{'a' * 64}.cubin", f"{'b' * 64}.cubin"
WORKLOAD = make_workload("softmax", collect=(Kind.MACHINE_CODE,))
IDENTITY = Identity(machine_code="", launcher="", binding="b", subject="s", workload="w", collector="c")
LAUNCH = ["spilling", "16,1,1", "128,1,1", 384]
VALUES = {
    "launches": [LAUNCH, LAUNCH],
    "cubins": [["triton", SPILLING, "spilling"], ["triton", SCALE, ""]],
    "choices": {"spilling": {"num_warps": "4", "BLOCK": "128"}},
    "libraries": [],
}
FUNCTION = nvdisasm.Function(
    name="spilling", opcodes=(("LDL", 3), ("STL", 2), ("FADD", 5)), waits=0, unfenced_tma_stores=0, highest_register=24
)


class Session:
    """A session whose worker gives a scripted result."""

    nvdisasm = Path("/nvdisasm")

    def __init__(self, folder: Path) -> None:
        self.scratch = folder

    def job(self, *_: Any, **__: Any) -> None: ...
    def seconds(self, _: Kind) -> float:
        return 1.0

    def is_healthy(self) -> bool:
        return True

    def workloads(self, _: Kind) -> tuple[Any, ...]:
        return (WORKLOAD,)

    def build(self, _: str) -> Any:
        return make_build(dependencies=(("torch", "2.11.0"),))

    def observation(self, kind: Kind, workload: Any, **learned: Any) -> Observation:
        return Observation(kind=kind, target=workload.id, identity=IDENTITY, **learned)


@pytest.fixture
def observe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the observation of a result."""
    (tmp_path / "cubins").mkdir()
    shutil.copyfile(RECORDINGS / "spilling.cubin", tmp_path / "cubins" / SPILLING)
    shutil.copyfile(RECORDINGS / "scale.cubin", tmp_path / "cubins" / SCALE)

    def run(missing: Missing | None = None, **changes: Any) -> Observation:
        values = {**VALUES, **changes}
        result = WorkloadResult(values=values, missing=missing, completed=None, result_file=tmp_path / "result.json")
        monkeypatch.setattr(isolation, "run_isolated", lambda *_, **__: {WORKLOAD.id: result})
        monkeypatch.setattr(objects, "disassemble", lambda *_: (FUNCTION,))
        (seen,) = machine_code.collect(Session(tmp_path))  # type: ignore[arg-type]
        return seen

    return run


def test_resources_are_those_that_ptxas_printed() -> None:
    assert elf.resources((RECORDINGS / "spilling.cubin").read_bytes()) == {"plain": (10, 0), "spilling": (24, 448)}
    with pytest.raises(ValueError, match="not a cubin"):
        elf.resources(b"\x7fELF")


def test_the_build_gates_have_their_readings(observe: Any) -> None:
    seen = observe()
    values = {name: reading.value for name, reading in seen.readings}
    assert (values["spills/bytes"], values["stack/bytes"], values["shared/bytes"]) == (448, 448, 384)
    assert (values["local-memory/instructions"], values["registers/highest"]) == (5, 24)
    assert values["instructions/count"] == 10
    assert "24 registers of 255" in seen.notes[0]
    assert "launches: 2, the first with 16,1,1/128,1,1" in seen.notes[0]


def test_evidence_names_cubin_launches_sources_and_choice(observe: Any) -> None:
    (module,) = observe().jit
    assert module.digest == elf.read((RECORDINGS / "spilling.cubin").read_bytes(), "").digest
    assert module.launches == (("spilling", "16,1,1/128,1,1"),) * 2
    assert module.configuration == (("BLOCK", "128"), ("num_warps", "4"))
    assert len(module.sources) == 64
    assert is_complete((module,))


def test_a_kernel_without_a_cubin_is_never_a_pass(observe: Any) -> None:
    seen = observe(launches=[LAUNCH, ["void at::native::fill<float>(int)", "1,1,1", "32,1,1", 0]])
    assert isinstance(seen.missing, Missing)
    assert seen.missing.code is Code.NO_MACHINE_CODE
    assert "at::native::fill" in seen.missing.message
    assert [module.framework for module in seen.jit] == ["triton", LIBRARY]
    assert not is_complete(seen.jit)


def test_another_library_is_named_and_nothing_is_complete(observe: Any) -> None:
    seen = observe(libraries=[["/home/me/ext.so", "0" * 64]])
    assert [module.name for module in seen.jit] == ["spilling", "ext.so"]
    assert not is_complete(seen.jit)


def test_all_cubins_of_a_name_count_if_no_launch_tells_which(observe: Any) -> None:
    twice = [["cupy", SPILLING, ""], ["driver", SPILLING, ""]]
    assert [module.framework for module in observe(cubins=twice).jit] == ["cupy", "driver"]


def test_one_readable_copy_of_the_same_machine_code_is_enough(
    observe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = f"{'d' * 64}.cubin"
    (tmp_path / "cubins" / copy).write_bytes((RECORDINGS / "spilling.cubin").read_bytes() + b"the driver's own")
    both = {"cubins": [["driver", copy, ""], ["cupy", SPILLING, ""]]}
    observe()
    monkeypatch.setattr(machine_code, "_read", refuse := Refuse(copy))
    assert observe(**both).missing is None
    refuse.names |= {SPILLING}
    missing = observe(**both).missing
    assert isinstance(missing, Missing)
    assert missing.code is Code.NO_MACHINE_CODE


class Refuse:
    """Fails to read these files."""

    def __init__(self, *names: str) -> None:
        self.names, self.read = set(names), machine_code._read

    def __call__(self, session: Any, one: Any, cubin: Path, symbol: str) -> Any:
        if cubin.name in self.names:
            raise ValueError("nvdisasm failed")
        return self.read(session, one, cubin, symbol)


@pytest.mark.parametrize(
    "changes",
    [
        {"cubins": [["triton", "../../etc/passwd", ""]]},
        {"cubins": [["triton", f"{'c' * 64}.cubin", ""]]},
        {"cubins": 3},
        {"launches": [["spilling"]]},
        {"launches": 2},
        {"choices": {"spilling": 3}},
        {"libraries": [["one"]]},
    ],
)
def test_a_malformed_result_is_no_evidence(observe: Any, changes: dict[str, Any]) -> None:
    assert observe(**changes).missing.code is Code.INVALID_RESULT


def test_an_image_that_cannot_be_read_holds_no_kernel(observe: Any, tmp_path: Path) -> None:
    (tmp_path / "cubins" / SPILLING).write_bytes(b"\x7fELF")
    assert observe().missing.code is Code.NO_MACHINE_CODE


def test_a_block_that_is_none_is_no_reading(observe: Any) -> None:
    assert observe(launches=[["spilling", "1", "1", 0]]).missing.code is Code.NO_MACHINE_CODE


def test_a_failed_process_keeps_its_reason(observe: Any) -> None:
    crash = Missing(code=Code.CRASH, message="died")
    assert observe(missing=crash).missing == crash


@pytest.mark.parametrize(
    ("block", "budget"), [("128,1,1", 255), ("256,1,1", 255), ("512,1,1", 128), ("1024,1,1", 64), ("33,3,7", 88)]
)
def test_a_thread_has_the_registers_that_its_block_leaves(block: str, budget: int) -> None:
    assert machine_code.register_budget(block) == budget


@pytest.mark.parametrize(
    ("symbol", "kernel", "same"),
    [
        ("scale", "scale", True),
        ("scale_2", "scale", False),
        ("_Z5scalePfi", "scale(float*, int)", True),
        ("_ZN4mine5scaleIfEEvPT_", "void mine::scale<float>(float*)", True),
        ("_Z5scalePfi", "rescale(float*, int)", False),
        ("_Z5scalePfi", "", False),
    ],
)
def test_a_profiler_names_kernels_without_mangling(symbol: str, kernel: str, same: bool) -> None:
    assert machine_code.is_symbol_of(symbol, kernel) is same


def test_the_worst_kernel_counts() -> None:
    low, high = ((("a", Measured(value=value, unit="count")),) for value in (1.0, 2.0))
    assert machine_code._worst([low, high, low]) == high

"""`gates/world` gates kernels of other projects. Its plan needs none of their packages."""

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from factories import make_build

from flashcore_ci.build import interpreted
from flashcore_ci.build.python_imports import closure
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.identity import is_bound
from flashcore_ci.model.subject import Description, Problem
from flashcore_ci.model.suite import Kind, Suite
from flashcore_ci.plan import planner
from flashcore_ci.suite.loader import load
from flashcore_ci.worker import imports

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "gates/world"
MAX_LINES = 15
MAX_PER_PROJECT, MIN_PROJECTS, MIN_KERNELS = 8, 6, 30
EVERYWHERE = {Kind.CORRECTNESS, Kind.SANITIZER, Kind.PROFILE, Kind.TIMING}
PACKAGES = {"liger_kernel", "fla", "xformers", "sageattention", "flash_attn_interface", "cupy", "torch", "triton"}


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load(FOLDER / "world.toml", root=ROOT)


def module_of(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"world_{Path(file).stem}", ROOT / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernels_in(file: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)}


def files() -> list[Path]:
    return sorted(FOLDER.glob("*_kernels.py"))


def test_it_plans_every_kind_of_evidence_without_a_package(suite: Suite) -> None:
    before = set(sys.modules)
    descriptions = []
    for subject in suite.subjects:
        module = module_of(subject.file)
        own = [workload for workload in suite.workloads if workload.subject == subject.name]
        problems = tuple(
            Problem(**{**module.problem(dict(workload.params)), "entries": (), "workload": workload.id}) for workload in own
        )
        descriptions.append(Description(subject=subject.name, file=subject.file, build=module.build(ROOT), problems=problems))
    plan = planner.make_plan(suite, tuple(descriptions), compared=False)
    assert {name.partition(".")[0] for name in set(sys.modules) - before} & PACKAGES == set()
    assert all(set(workload.collect) >= EVERYWHERE for workload in plan.workloads)
    judged = {check.target: set[str]() for check in plan.checks}
    for check in plan.checks:
        judged[check.target].add(check.gate.id)
    wanted = {"error-ratio", "memcheck", "racecheck", "synccheck", "initcheck", "profile", "stability"}
    assert all(gates >= wanted for gates in judged.values())


def test_there_are_enough_kernels_of_enough_projects(suite: Suite) -> None:
    kernels = {subject.name: [w for w in suite.workloads if w.subject == subject.name] for subject in suite.subjects}
    assert len(kernels) >= MIN_PROJECTS
    assert max(map(len, kernels.values())) <= MAX_PER_PROJECT
    assert sum(map(len, kernels.values())) >= MIN_KERNELS
    for subject in suite.subjects:
        named = {str(dict(workload.params)["kernel"]).replace("-", "_") for workload in kernels[subject.name]}
        assert named == set(kernels_in(ROOT / subject.file))


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_a_kernel_needs_few_lines_of_ours(file: Path) -> None:
    lengths = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in kernels_in(file).items()}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_a_package_that_is_absent_is_no_mistake_of_the_plan(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "_exists", lambda name: name == "torch")
    assert imports.missing_imports(file, ROOT) == []


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_evidence_is_bound_to_the_sources_and_the_packages(file: Path) -> None:
    found = closure((file.relative_to(ROOT).as_posix(),), Sources(ROOT))
    assert set(found.files) == {"gates/world/world_common.py", file.relative_to(ROOT).as_posix()}
    assert "torch" in found.modules
    used = set(re.findall(r'use\("(\w+)', file.read_text(encoding="utf-8"))) - {"cupyx"}
    assert used <= set(found.modules)


def test_a_machine_without_the_packages_knows_their_versions(suite: Suite) -> None:
    builds = [make_build(subject=one.name, entries=(), binding="", library="") for one in suite.subjects]
    descriptions = [Description(subject=one.name, file=one.file, build=None, problems=()) for one in suite.subjects]
    bound = interpreted.bind(descriptions, builds, root=ROOT, versions=lambda _: {})
    assert all(map(is_bound, bound))


def test_only_our_own_files_are_committed() -> None:
    kinds = {path.suffix for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds <= {".py", ".toml", ".md", ".lock", ".xz", ".json"}
    lock = (FOLDER / "requirements.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)$", lock, re.MULTILINE)
    assert {name for name, *_ in pins} == {"liger-kernel", "fla-core", "xformers", "sageattention", "tokenspeed-fa3"}
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"{name} {version}" in table for name, version, _ in pins)

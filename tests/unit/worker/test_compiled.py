"""What frameworks compile and choose, seen from inside their process. Stand-ins take the frameworks' places."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from flashcore_ci.worker import compiled, machine_code
from flashcore_ci.worker.compiled import Observer

CUBIN = (Path(__file__).parents[2] / "recordings/nvcc/spilling.cubin").read_bytes()
OTHER = (Path(__file__).parents[2] / "recordings/nvcc/scale.cubin").read_bytes()


@pytest.fixture(autouse=True)
def no_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in compiled.CACHE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """As much of Triton as the observer sees, with its names."""

    class CompiledKernel:
        def __init__(self, name: str, image: bytes) -> None:
            self.metadata, self.asm, self.hash = SimpleNamespace(name=name), {"cubin": image}, name

        def launch_metadata(self, grid: tuple[int, ...], stream: int) -> str:
            return "metadata"

    class Autotuner:
        def __init__(self, name: str, configs: int) -> None:
            self.base_fn, self.configs, self.best_config = SimpleNamespace(__name__=name), [None] * configs, None

        def run(self, block: int) -> int:
            self.best_config = SimpleNamespace(kwargs={"BLOCK": block}, num_warps=4, num_stages=3, num_ctas=None, maxnreg=None)
            return block

    hooks: list[object] = []
    runtime = SimpleNamespace(launch_enter_hook=SimpleNamespace(add=hooks.append))
    contents = {"triton": {"knobs": SimpleNamespace(runtime=runtime)}, "triton.compiler": {}, "triton.runtime": {}}
    contents |= {
        "triton.compiler.compiler": {"CompiledKernel": CompiledKernel},
        "triton.runtime.autotuner": {"Autotuner": Autotuner},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        module.__dict__.update(content, __path__=[])
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda name: True if name == "triton" else None)
    return SimpleNamespace(CompiledKernel=CompiledKernel, Autotuner=Autotuner, hooks=hooks)


def test_only_launched_kernels_count(triton: SimpleNamespace) -> None:
    observer = Observer()
    tried, chosen = triton.CompiledKernel("tried", OTHER), triton.CompiledKernel("chosen", CUBIN)
    assert tried.launch_metadata((1,), 0) == "metadata"
    observer.forget()
    chosen.launch_metadata((1,), 0)
    assert list(observer.kernels.values()) == [("chosen", CUBIN)]
    assert len(triton.hooks) == 1


def test_choices_are_those_of_the_launches_that_count(triton: SimpleNamespace) -> None:
    observer = Observer()
    triton.Autotuner("earlier", 3).run(64)
    observer.forget()
    assert triton.Autotuner("softmax", 3).run(128) == 128
    triton.Autotuner("not_tuned", 1).run(256)
    assert observer.choices() == {"softmax": {"BLOCK": "128", "num_warps": "4", "num_stages": "3"}}


def test_a_loader_of_nvidias_packages_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ModuleType("cuda.bindings.driver")
    driver.cuModuleLoadData = lambda image: ("success", len(image))  # type: ignore[attr-defined]
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda _: None)
    observer = Observer()
    assert driver.cuModuleLoadData(CUBIN) == ("success", len(CUBIN))
    driver.cuModuleLoadData(b".version 8.0")
    assert observer.loaded == [CUBIN]


@pytest.mark.parametrize("around", [(b"", b""), (b"0" * 40, b""), (b"\x7fELF and more", b"tail"), (OTHER, b"")])
def test_cubins_are_cut_out_of_files(around: tuple[bytes, bytes]) -> None:
    before, after = around
    found = list(compiled.cut_images(before + CUBIN + after))
    assert found[-1] == CUBIN
    assert len(found) == 1 + (before == OTHER)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", Path(sys.executable).resolve().read_bytes()[:4096], CUBIN[1:]])
def test_other_files_hold_none(data: bytes) -> None:
    assert list(compiled.cut_images(data)) == []


def test_caches_of_the_process_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cupy/a").mkdir(parents=True)
    (tmp_path / "cupy/a/kernel.cubin").write_bytes(b"digest" + CUBIN)
    (tmp_path / "cupy/notes.json").write_text("{}")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cupy"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "absent"))
    assert list(compiled.images()) == [("cupy", CUBIN)]


def test_libraries_of_the_system_and_of_frameworks_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        "/usr/lib/libc.so.6",
        f"{sys.prefix}/lib/libtorch.so",
        "/cache/triton/launcher.so",
        "/cache/extension/mine.so",
        "/home/me/ext.so",
    ]
    monkeypatch.setattr(compiled, "_maps", lambda: [f"7f-80 r-xp 0 08:01 12 {name}" for name in names] + ["7f-80 rw-p 0 00:00 0"])
    monkeypatch.setenv("TRITON_CACHE_DIR", "/cache/triton")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/cache/extension")
    assert compiled.libraries() == ["/cache/extension/mine.so", "/home/me/ext.so"]


def test_launches_are_read_in_order_with_grid_and_block() -> None:
    def event(name: str, at: float, category: str = "kernel") -> dict[str, object]:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "ts": at,
            "args": {"grid": [4, 1, 1], "block": [128, 1, 1], "shared memory": 16},
        }

    trace = {"traceEvents": [event("second", 2.0), event("copy", 0.0, "gpu_memcpy"), event("first", 1.0), "junk"]}
    assert machine_code.read_launches(trace) == [["first", "4,1,1", "128,1,1", 16], ["second", "4,1,1", "128,1,1", 16]]


def test_each_cubin_is_kept_once_and_the_launched_one_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "images", lambda: [("triton", CUBIN), ("triton", OTHER)])
    observer = SimpleNamespace(kernels={"hash": ("spilling", CUBIN)}, loaded=[OTHER])
    kept = machine_code.keep_cubins(observer, tmp_path)  # type: ignore[arg-type]
    assert [(framework, exact) for framework, _, exact in kept] == [("triton", "spilling"), ("driver", "")]
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == sorted([CUBIN, OTHER])

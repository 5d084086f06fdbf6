"""Subject: FlashAttention-3's own tests, run on FlashCore's modules or on FlashAttention-3's package.

Parameters: ``sample`` and ``group`` (upstream_cases.py, upstream_fp8.py), and ``package``: flashcore (default) or fa3. The seed draws the sample. A process
has one package.

The tests are not part of this repository. ``FLASHCORE_UPSTREAM`` names a folder with the three files of ``FILES``, and ``FLASHCORE_FA3`` the
folder of the package that ``PEER`` pins. ``python3 tools/bench/upstream.py fetch FOLDER`` downloads the files. They need einops.

A test loops over dimensions of its values. Here each is a case of its own. Everything else of the test stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import io
import itertools
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FOLDER, PEER_FOLDER = "FLASHCORE_UPSTREAM", "FLASHCORE_FA3"
COMMIT = "0251105a2fb19d2957484b7f023cd8c115286ced"
FILES = {
    "test_flash_attn.py": "61c61341e2a871cb65934d503e252a2ba023a2c11703e1558a61adff020c71cf",
    "test_util.py": "b8f874b60ba1a01fe9f282528d562b200119eb34a0f912938e0a50351c56ca30",
    "padding.py": "828925b355f3d901943ea9bd58c476586d884363dbb63755a4950f37a6695559",
}
"""Digests of the files of ``hopper/`` in Dao-AILab/flash-attention at ``COMMIT`` (BSD 3-Clause)."""
PEER = {"flash_attn_3/_C.abi3.so": "9ced679d59baf24c73654a7eebe8c937db0ee63ac149786dd7928947b7c77cd3"}
"""Digest of the library of the package tokenspeed-fa3 3.0.0.post20260810."""
PACKAGES = ("flashcore", "fa3")
LEFT_OUT = ("BACKWARD",)
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "e4m3": "float8_e4m3fn"}
NAMED = re.compile(r"[a-z_]+: ")
"""How a message of FlashCore begins that refuses an argument."""
TABLES = (
    "attention", "attention_local", "decode", "decode_ragged", "decode_local", "decode_fp8", "decode_key_scales", "decode_gather",
    "varlen", "e4m3", "e4m3_block", "e4m3_transpose", "combine",
)  # fmt: skip
"""The kernels that the launchers of attention, decode, E4M3 and the merge name (kernel/variants.toml)."""
QUANTISE = "kernel/src/quantise_blocks.cu"
BLOCK_ENTRIES = (
    *(f"flashcore_quantise_{kind}_{dtype}" for kind in ("rows", "values") for dtype in ("fp16", "bf16")), "flashcore_e4m3_permute_values",
)  # fmt: skip

_library: pathlib.Path | None = None
_package = ""


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    SourceFileLoader(module.__name__, str(KERNEL / f"subjects/{name}.py")).exec_module(module)
    return module


upstream_cases, upstream_fp8 = _load_neighbour("upstream_cases"), _load_neighbour("upstream_fp8")


def is_peer() -> bool:
    """Return whether the tests run on FlashAttention-3's package, so that no kernel of ours may run."""
    return _package == "fa3"


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build attention and decode into one library. Evidence of the peer is bound to it too."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    entries = [{**table[name]["tiles"][entry["tile"]], **entry} for name in TABLES for entry in table[name]["entries"]]
    package = sorted((root / "kernel/flashcore").rglob("*.py"))
    return {
        "library": "libflashcore_upstream.so",
        "launchers": sorted(
            {*(file for name in ("attention", "combine", "decode", "e4m3") for file in table[name]["launchers"]), QUANTISE}
        ),
        "includes": table["attention"]["includes"],
        "binding": [
            *(path.relative_to(root).as_posix() for path in package),
            "kernel/subjects/upstream_cases.py",
            "kernel/subjects/upstream_fp8.py",
        ],
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                **{key: entry.get(key) for key in ("max_registers", "requires", "max_waits_per_hgmma", "dynamic_shared_bytes")},
            }
            for entry in entries
        ]
        + [
            {
                "symbol": symbol,
                "source": QUANTISE,
                "max_registers": 128,
                "requires": [],
                "max_waits_per_hgmma": None,
                "dynamic_shared_bytes": 0,
            }
            for symbol in BLOCK_ENTRIES
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Name all kernels of 16-bit types, or all of E4M3, because any of them may serve a case. The work is not counted."""
    _get_sets(params["group"]).check(params["sample"], params["group"])
    if params.get("package", PACKAGES[0]) not in PACKAGES:
        raise ValueError(f"package: must be one of {', '.join(PACKAGES)}, is {params['package']!r}")
    return {"flops": 0.0, "bytes": 0.0, "entries": list(_list_entries(is_fp8=_is_fp8(params["group"])))}


def _is_fp8(group: str) -> bool:
    return group.startswith("fp8-")


def _get_sets(group: str) -> ModuleType:
    return upstream_fp8 if _is_fp8(group) else upstream_cases


@functools.cache
def _list_entries(*, is_fp8: bool) -> tuple[str, ...]:
    symbols = (entry["symbol"] for entry in build(KERNEL.parent)["entries"])
    unused = ("_quantise_", "_block_", "_key_scales_")
    return tuple(symbol for symbol in symbols if ("e4m3" in symbol) == is_fp8 and not any(name in symbol for name in unused))


def load(library: pathlib.Path) -> None:
    """Keep the path. ``cases`` loads it after it has found the tests."""
    global _library  # noqa: PLW0603 - the worker loads a subject once
    _library = library


def cases(params: Mapping[str, Any], seed: int) -> list[tuple[str, list[str], Any]]:
    """List the cases of a workload: name, features, and the case for ``run_case``. FileNotFoundError if the tests are not here."""
    global _package  # noqa: PLW0603 - the two packages have one namespace in PyTorch
    package = params.get("package", PACKAGES[0])
    if _package not in {"", package}:
        raise ValueError(f"package: this process has {_package}, so {package} needs another")
    _package = package
    load_tests()
    sets = _get_sets(params["group"])
    return [(str(case), list(sets.list_features(case)), case) for case in sets.choose(params["sample"], params["group"], seed)]


def run_case(case: Any) -> None:
    """Run a test. AssertionError: it is wrong. NotImplementedError: an argument is refused by name."""
    tests = load_tests()
    has_values = case.test in {"output", "varlen_output", "kvcache"}
    arguments = case.arguments
    chunk = arguments.pop("chunk", None)
    product = _restrict(case.dv or dict(case.params)["d"], chunk=chunk) if has_values else itertools.product
    tests.itertools = SimpleNamespace(product=product)
    if "dtype" in arguments:
        arguments["dtype"] = getattr(tests.torch, DTYPES[arguments["dtype"]])
    skipped = importlib.import_module("pytest").skip.Exception
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            getattr(tests, f"test_flash_attn_{case.test}")(**arguments)
    except skipped as error:
        raise ValueError(f"upstream skips it: {error}") from None
    except (ValueError, RuntimeError) as error:
        if _is_refused(error):
            raise NotImplementedError(str(error)) from error
        raise


def _restrict(dv: int, *, chunk: bool | None = None) -> Any:
    """Return a product that has one dimension of values in its first call: the outer loop of a test. Of chunks, all or one."""
    outer = [dv]

    def product(first: list[Any], second: list[Any]) -> Any:
        if not outer:
            return itertools.product(first, second)
        if dv not in first:
            raise ValueError(f"upstream has no values of dimension {dv}, only of {first}")
        return itertools.product([outer.pop()], [size for size in second if chunk is None or (size != 0) == chunk])

    return product


def _is_refused(error: Exception) -> bool:
    if is_peer():
        return "support" in str(error)
    return type(error) is ValueError and NAMED.match(str(error)) is not None


@functools.cache
def load_tests() -> Any:
    """Import upstream's tests, after the modules that they call."""
    sys.path.insert(0, str(find_files(FOLDER, FILES)))  # which may also hold einops
    for name in ("einops", "pytest"):
        if importlib.util.find_spec(name) is None:
            raise FileNotFoundError(f"upstream's tests need {name}: install it with pip")
    os.environ |= {f"FLASH_ATTENTION_DISABLE_{name}": "TRUE" for name in LEFT_OUT} | {"FLASHCORE_STRICT": "1"}
    if is_peer():
        sys.path.insert(0, str(find_files(PEER_FOLDER, PEER)))
        importlib.import_module("flash_attn_interface")
    else:
        if str(KERNEL) not in sys.path:
            sys.path.insert(0, str(KERNEL))
        if _library is not None:
            importlib.import_module("flashcore").load(_library)
        importlib.import_module("flashcore.fa3")
    _provide_rotary()
    tests = importlib.import_module("test_flash_attn")
    _compare(tests)
    return tests


def find_files(variable: str, digests: Mapping[str, str]) -> pathlib.Path:
    """Return the folder that a variable names, with exactly these files."""
    folder = pathlib.Path(os.environ.get(variable) or "")
    for name, digest in digests.items():
        path = folder / name
        if not os.environ.get(variable) or not path.is_file():
            raise FileNotFoundError(f"{variable} names no folder with {name}")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise FileNotFoundError(f"{path} is another version: its digest is {found[:12]}, not {digest[:12]}")
    return folder


def _compare(tests: Any) -> None:
    """ValueError if upstream's tests have other parameters than upstream_cases.py."""
    for test, axes in upstream_cases.TESTS.items():
        marks = getattr(tests, f"test_flash_attn_{test}").pytestmark
        given = {_join(mark.args[0]): set(map(str, mark.args[1])) for mark in marks if mark.name == "parametrize"}
        ours = {name: {str(_typed(tests, name, value)) for value in values} for name, values in axes.items()}
        if test in upstream_cases.SHAPES:
            ours[upstream_cases.LENGTHS] = {str(tuple(map(int, s.split("x")))) for s in upstream_cases.SHAPES[test].split()}
        if test in upstream_fp8.TESTS:
            ours["dtype"].add(str(_typed(tests, "dtype", "e4m3")))
        if given != ours:
            names = sorted(name for name in {*given, *ours} if given.get(name) != ours.get(name))
            raise ValueError(f"test_flash_attn_{test}: {names[0]}: upstream has {given.get(names[0])}, we {ours.get(names[0])}")


def _join(names: Any) -> str:
    return ",".join(name.strip() for name in (names.split(",") if isinstance(names, str) else names))


def _typed(tests: Any, name: str, value: Any) -> Any:
    return getattr(tests.torch, DTYPES[value]) if name == "dtype" else value


def _provide_rotary() -> None:
    """Publish a plain ``apply_rotary_emb``, without which upstream leaves its rotary cases out."""
    import torch

    def apply_rotary_emb(x: Any, cos: Any, sin: Any, *, interleaved: bool = False, seqlen_offsets: Any = 0) -> Any:
        half, y = cos.shape[-1], x.float().clone()
        first = torch.as_tensor(seqlen_offsets, device=x.device).long().expand(x.shape[0])
        at = (first[:, None] + torch.arange(x.shape[1], device=x.device)).clamp(max=cos.shape[0] - 1)
        c, s = cos[at].float()[:, :, None], sin[at].float()[:, :, None]
        a, b = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
        y[..., a], y[..., b] = x[..., a].float() * c - x[..., b].float() * s, x[..., a].float() * s + x[..., b].float() * c
        return y.to(x.dtype)

    for name in ("flash_attn", "flash_attn.layers", "flash_attn.layers.rotary"):
        sys.modules.setdefault(name, ModuleType(name)).__path__ = []
    vars(sys.modules["flash_attn.layers.rotary"])["apply_rotary_emb"] = apply_rotary_emb

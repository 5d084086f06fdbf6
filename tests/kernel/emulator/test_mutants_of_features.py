"""Mutants of kernel/defects/mutants.toml in the emulator: each gives wrong values where its kernel without the edit gives right ones."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest
from emulated import KERNEL, Library, ViolationError
from emulated_cases import Attention, Decode, Local
from emulated_e4m3 import PackedE4m3
from emulated_key_scales import Scaled
from emulated_packed import E4m3, Packed
from emulator_build import build

pytestmark = pytest.mark.nightly

Case = Attention | Decode | E4m3 | Packed | PackedE4m3 | Scaled
TABLE = tomllib.loads((KERNEL / "defects/mutants.toml").read_text(encoding="utf-8"))
EDITS = {mutant["name"]: mutant["edits"] for mutant in TABLE["mutant"]}
SOURCES = {"attention": ["attention"], "decode": ["decode"], "e4m3": ["e4m3", "e4m3_varlen"]}
TRANSPOSE = "flashcore_e4m3_transpose_values"
CHUNK = Attention(64, 150, 151, causal=True, local=Local(chunk=100), rows=(0, 50, 98, 99, 100, 149))
CAUGHT: dict[str, Case] = {
    "chunk-ignored": CHUNK,
    "chunk-off-by-one": CHUNK,
    "splits-without-maxima": Decode(128, (300, 200), heads=4, splits=3),
    "decode-window-tile-lost": Decode(128, (300, 200), heads=4, local=Local(left=100)),
    "decode-chunk-off-by-one": Decode(64, (300, 200), heads=4, sq=3, local=Local(chunk=100)),
    "decode-chunk-from-the-loaded": Decode(64, (300, 200), heads=4, local=Local(chunk=140)),
    "decode-used-queries-ignored": Packed(128, ((4, 60), (1, 40)), "flashcore_decode", page_size=16, unused=2),
    "decode-not-capped": Decode(128, (300, 70), heads=4, local=Local(softcap=2.0)),
    "decode-page-before": Decode(128, (300, 70), heads=4, page_size=16),
    "appended-key-before": Decode(128, (300, 70), heads=4, sq=3, new_keys=3),
    "fp8-key-scale-of-the-next": Scaled(128, (300, 70), page_size=16),
    "fp8-key-scale-forgotten": Scaled(128, (300, 70)),
    "fp8-value-scale-twice": Scaled(128, (300, 70), page_size=64, per_page=True),
    "e4m3-odd-block-lost": E4m3(20, 300),
    "e4m3-odd-block-of-another-slot": E4m3(20, 300),
    "e4m3-packed-odd-block-lost": PackedE4m3(128, ((5, 200), (9, 129), (20, 333)), rows=(0, 4, 19)),
}
"""A problem that shows the defect, like that of its row in ``gates/defects.toml``, or in that of features or E4M3."""
HIDDEN: dict[str, tuple[Case, ...]] = {
    "chunk-ignored": (Attention(64, 150, 151, causal=True, local=Local(chunk=200), rows=(0, 149)),),
    "splits-without-maxima": (Decode(128, (300, 70), heads=4, max_ctas=1),),
    "decode-window-tile-lost": (Decode(128, (300, 200), heads=4, local=Local(left=299)),),
    "decode-chunk-off-by-one": (Decode(64, (300, 200), heads=4, local=Local(chunk=400)),),
    "decode-chunk-from-the-loaded": (Decode(64, (300, 200), heads=4, local=Local(chunk=400)),),
    "decode-used-queries-ignored": (Packed(128, ((4, 60), (1, 40)), "flashcore_decode", page_size=16),),
    "decode-page-before": (Decode(128, (300, 70), heads=4),),
    "appended-key-before": (Decode(128, (300, 70), heads=4, new_keys=1),),
    "fp8-key-scale-of-the-next": (Scaled(128, (300, 70), page_size=16, per_page=True),),
    "fp8-key-scale-forgotten": (Scaled(128, (300, 70), scaled="v"),),
    "fp8-value-scale-twice": (Scaled(128, (300, 70), scaled="k"),),
    "e4m3-odd-block-lost": (E4m3(20, 256), E4m3(20, 500)),
    "e4m3-odd-block-of-another-slot": (E4m3(20, 256), E4m3(20, 500)),
    "e4m3-packed-odd-block-lost": (PackedE4m3(128, ((5, 200), (9, 129), (20, 400)), rows=(0, 4, 19)),),
}
"""Problems that do not use the feature, so that the defect has no effect."""


def find_entry(name: str) -> str:
    spec = importlib.util.spec_from_file_location("mutant_entries", KERNEL / "defects/entries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entry: str = module.ENTRIES[name]
    return entry


def load(tmp_path: Path, name: str, *, mutated: bool) -> Library:
    """Build the entry function of a mutant, with its edits or without."""
    entry = find_entry(name)
    sources = SOURCES[entry.split("_")[1]]
    edits = EDITS[name] if mutated else []
    changes = {file.removeprefix("include/"): (old, new) for file, old, new in edits}
    variants = [entry, *([TRANSPOSE] if "e4m3" in sources else [])]
    library = Library(build(tmp_path / f"{name}-{mutated}.so", variants, sources, mutations=changes))
    library.configure(seed=3, multiprocessors=4, races=False)  # a race is not what the gates on values see
    return library


@pytest.mark.parametrize("name", CAUGHT)
def test_a_mutant_gives_wrong_values_where_its_kernel_gives_right_ones(tmp_path: Path, name: str) -> None:
    assert CAUGHT[name].run(load(tmp_path, name, mutated=False))
    library = load(tmp_path, name, mutated=True)
    for case in HIDDEN.get(name, ()):
        case.run(library)
    with pytest.raises(ViolationError, match=r"wrong values|is not in the cache"):
        CAUGHT[name].run(library)

"""Check the schedule of deterministic decode: kernel/include/flashcore/decode/segments.h, compiled for the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = HOST.parents[2] / "kernel/include"
MULTIPROCESSORS = 132
CASES = 4000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("segments") / "segments"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "decode_segments.cpp"), "-o", str(out)], check=True, timeout=600)
    return out


def ask(program: Path, *arguments: object, text: str = "") -> list[str]:
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_every_segment_has_one_cta_and_one_place(program: Path) -> None:
    *violations, shared = ask(program, "check", 1, CASES)
    assert violations == []
    assert int(shared) > CASES  # work tiles of several CTAs


def test_sums_have_the_same_bits_in_every_batch_and_on_every_number_of_ctas(program: Path) -> None:
    assert ask(program, "fold", 1, CASES) == [f"0 {CASES}"]


@pytest.mark.parametrize("defect", ["each-cta-folds", "last-first"])
def test_another_order_of_merges_shows(program: Path, defect: str) -> None:
    [line] = ask(program, "fold", 1, CASES, defect)
    assert int(line.split()[0]) > CASES // 4


@pytest.mark.parametrize(
    ("shape", "keys", "ctas", "shared"),
    [
        ((128, 32, 32, 8), 4096, 128, 0),
        ((128, 64, 32, 8), 8192, 128, 0),
        ((64, 16, 16, 16), 8192, 128, 0),
        ((128, 8, 32, 8), 32768, 128, 9),
        ((256, 16, 16, 4), 16384, 128, 9),
        ((128, 1, 32, 8), 131072, 128, 61),
        ((128, 2, 32, 8), 4096, 128, 8),
    ],
    ids=str,
)
def test_shapes_with_a_price_have_no_cta_with_more_tiles(
    program: Path, shape: tuple[int, int, int, int], keys: int, ctas: int, shared: int
) -> None:
    line = " ".join(map(str, (*shape, MULTIPROCESSORS, *[keys] * shape[1])))
    [answer] = ask(program, "load", text=line)
    found_ctas, _, with_segments, at_ranges, _, _, _, most_partials, _ = map(int, answer.split())
    assert (found_ctas, most_partials) == (ctas, shared)
    assert with_segments == at_ranges


def test_the_workspace_holds_long_sequences_in_less_than_a_tenth_of_a_gigabyte(program: Path) -> None:
    line = " ".join(map(str, (128, 64, 32, 8, MULTIPROCESSORS, *[131072] * 64)))
    [answer] = ask(program, "load", text=line)
    assert int(answer.split()[-1]) < 150e6

"""Find the fastest tile of each head dimension and mask: compile here, race on a GPU, write the report.

usage: python3 tools/bench/tune.py space [--only PATTERN]
       python3 tools/bench/tune.py compile --out DIR [--only PATTERN] [--nvcc FILE] [--jobs N]     without a GPU
       python3 tools/bench/tune.py measure --candidates DIR --out FILE.json [--seconds N]          on a Hopper GPU, with torch
       python3 tools/bench/tune.py choose [FILE.json]                                              writes docs/tuner.md

PATTERN is a regular expression for names. The name d64-192x128-q2-kv3-wg3 means 64 elements per head, 192 queries by 128 keys, two
query stages, three key and value stages, and three consumer warpgroups. Switches that are on follow.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / folder) for folder in ("kernel", "tools/bench", "tools/docs"))]

from blocks import filled  # noqa: E402 - from the folders above, which are not installed
from tuner import build, choice, report, space  # noqa: E402

from flashcore_ci.adapters import process  # noqa: E402

SAMPLES = ROOT / "docs/performance/tuner.json"
HANG_SECONDS = 25.0
MEASURE_TIMEOUT = 560.0


def bases(root: Path) -> list[build.Job]:
    """Return the tile in use for each head dimension, full, with its table."""
    tiles = build.table(root)["attention"]["tiles"]
    return [(space.of_table(tile), tile, True) for name, tile in tiles.items() if name == f"d{tile['head_dim']}"]


def in_use(root: Path) -> dict[int, str]:
    """Describe today's tile of each head dimension for the report."""
    tiles = (tile for tile, *_ in bases(root))
    return {t.head_dim: f"{t.tile_m}x{t.tile_n}, q{t.q_stages}, kv{t.kv_stages}, wg{t.consumer_warpgroups}" for t in tiles}


def files(samples: dict[str, Any]) -> dict[str, str]:
    """Return the pages and pictures of a race by path."""
    pages = {report.PAGE: report.blocks(samples, in_use(ROOT)), report.FINALS: {"finals": report.finals(samples)}}
    texts = {path: filled((ROOT / path).read_text(encoding="utf-8"), **blocks) for path, blocks in pages.items()}
    return {**texts, **report.pictures(samples)}


def jobs(root: Path, pattern: str) -> list[build.Job]:
    """Return the candidates whose name matches, and always those in use."""
    found = [(one, tile, one == base) for base, tile, _ in bases(root) for one in space.candidates(base)]
    return [job for job in found if job[2] or re.search(pattern, job[0].name)]


def main(argv: list[str]) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("space", help="list what is possible")
    compiling = commands.add_parser("compile", help="compile candidates, without a GPU")
    measuring = commands.add_parser("measure", help="race them on this GPU")
    choosing = commands.add_parser("choose", help="write the report from the timings")
    for command, run in ((listing, _space), (compiling, _compile), (measuring, _measure), (choosing, _choose)):
        command.set_defaults(run=run)
    for command in (listing, compiling):
        command.add_argument("--only", default="", metavar="PATTERN")
    for command in (compiling, measuring):
        command.add_argument("--out", type=Path, required=True)
    compiling.add_argument("--nvcc", type=Path, default=Path("nvcc"))
    compiling.add_argument("--jobs", type=int, default=2)
    measuring.add_argument("--candidates", type=Path, required=True)
    measuring.add_argument("--seconds", type=float, default=1.2, help="for each row and rung")
    measuring.add_argument("--kernel", default="", help="the kernel's name in the report")
    measuring.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    choosing.add_argument("samples", type=Path, nargs="?", default=SAMPLES)
    options = parser.parse_args(argv)
    try:
        return int(options.run(options))
    except (OSError, ValueError, KeyError, re.error) as error:
        sys.stderr.write(f"tune: {error}\n")
        return 2


def _space(options: argparse.Namespace) -> int:
    for candidate, _, base in jobs(ROOT, options.only):
        need = f"about {candidate.registers_needed} of {candidate.registers_granted} registers, {candidate.shared_bytes} bytes"
        print(f"{candidate.name}: {need}{' (in use)' if base else ''}")
    return 0


def _compile(options: argparse.Namespace) -> int:
    compiler = build.Compiler(root=ROOT, program=options.nvcc, out=options.out)
    built = build.compile_all(compiler, jobs(ROOT, options.only), options.jobs)
    print(f"{sum(not entry.rejected for entry in built)} of {len(built)} candidates compiled: {options.out}")
    return 0


def _measure(options: argparse.Namespace) -> int:
    """Race in a child process. If a candidate hangs, race again without it."""
    if options.child:
        return _race(options)
    hangs, marker = (options.candidates / name for name in ("hung.json", "trying"))
    argv = [sys.executable, __file__, "measure", "--child", "--candidates", str(options.candidates), "--out", str(options.out)]
    argv += ["--seconds", str(options.seconds), "--kernel", options.kernel]
    while True:
        marker.unlink(missing_ok=True)
        logs = options.candidates / "logs"
        completed = process.run(argv, logs=logs, name="race", timeout=MEASURE_TIMEOUT, should_stop=lambda: _hangs(marker))
        sys.stderr.write(completed.error_text())
        if not (completed.returncode and marker.is_file()):
            return completed.returncode
        hangs.write_text(json.dumps([*_names(hangs), marker.read_text(encoding="utf-8")]), encoding="utf-8")


def _hangs(marker: Path) -> bool:
    return marker.is_file() and time.time() - marker.stat().st_mtime > HANG_SECONDS


def _names(path: Path) -> list[str]:
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def _race(options: argparse.Namespace) -> int:
    try:
        from tuner import race  # noqa: PLC0415 - only measuring needs torch
    except ImportError as error:
        raise ValueError(f"measuring needs PyTorch: {error}") from error
    built = build.read(options.candidates)
    hangs = _names(options.candidates / "hung.json")
    rejected = [(entry.candidate.name, entry.rejected) for entry in built if entry.rejected] + [(name, "hangs") for name in hangs]
    samples: dict[str, Any] = {
        "kernel": options.kernel,
        "device": race.torch.cuda.get_device_name(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "possible": sum(len(space.candidates(base)) for base, *_ in bases(ROOT)),
        "records": [],
        "rejected": rejected,
    }
    usable = [entry for entry in built if not entry.rejected and entry.candidate.name not in hangs]
    for head_dim in sorted({entry.candidate.head_dim for entry in built}):
        group = sorted((one for one in usable if one.candidate.head_dim == head_dim), key=lambda one: not one.base)
        if not group or not group[0].base:
            raise ValueError(f"D={head_dim}: the configuration in use did not compile or hangs")
        libraries = {entry.candidate.name: build.library(options.candidates, entry.candidate) for entry in group}
        rejections = race.preflight(libraries, head_dim, options.candidates / "trying")
        samples["rejected"] += list(rejections.items())
        libraries = {name: path for name, path in libraries.items() if name not in rejections}
        for mask in choice.MASKS:
            samples["records"] += race.race(libraries, group[0].candidate.name, (head_dim, mask), options.seconds)
            options.out.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    return 0


def _choose(options: argparse.Namespace) -> int:
    samples = json.loads(options.samples.read_text(encoding="utf-8"))
    for path, text in files(samples).items():
        (ROOT / path).write_text(text, encoding="utf-8")
    for result in report.choices(samples["records"]):
        share = f"at least as fast on {result.not_slower} of {len(result.gains)} rows"
        print(f"D={result.head_dim} {result.mask}: {result.winner} (by hand {result.hand}), {share}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

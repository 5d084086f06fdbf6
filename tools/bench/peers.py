"""Compare FlashCore's attention with FlashAttention-3, cuDNN and FlashAttention-2 on a Hopper GPU with torch.

usage: python3 tools/bench/peers.py measure --library [NAME=]FILE ... [--row B,H,S,D,MASK,DTYPE ...] --out FILE.json.xz
       python3 tools/bench/peers.py serving --build DIR --out FILE.json.xz

`measure` times every prefill row, in about three minutes. A second library takes part under its NAME. `serving` times decode over
caches and ragged prefill, in about a minute. `make performance` writes docs/performance.md from the samples.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernel"), str(ROOT / "tools/bench")]

from peerbench import page, rows, samples  # noqa: E402 - from the folders above, which are not installed

SUBJECTS = ("attention", "decode")


def main(argv: list[str]) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="time all prefill rows on this GPU")
    measure.add_argument("--library", action="append", required=True, metavar="[NAME=]FILE")
    measure.add_argument("--row", action="append", metavar="B,H,S,D,MASK,DTYPE", help="instead of the whole table")
    serving = commands.add_parser("serving", help="time decode and ragged prefill on this GPU")
    serving.add_argument("--build", type=Path, required=True, help="the output of flashcore-ci build: one folder per library")
    for command, settle, seconds in ((measure, 0.7, 1.6), (serving, 0.4, 0.8)):
        command.add_argument("--settle", type=float, default=settle, help="seconds of each row before samples count")
        command.add_argument("--seconds", type=float, default=seconds, help="seconds of samples for each row")
        command.add_argument("--kernel", default="", help="FlashCore's version on the page, such as in the tuning log")
        command.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        return _serving(options) if options.command == "serving" else _prefill(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"peers: {error}\n")
        return 2


def _prefill(options: argparse.Namespace) -> int:
    libraries = _libraries(options.library)
    return _run(options, [rows.parse(text) for text in options.row or ()] or rows.prefill() + rows.long_context(), libraries)


def _serving(options: argparse.Namespace) -> int:
    libraries = [options.build / name / f"libflashcore_{name}.so" for name in SUBJECTS]
    if missing := [path for path in libraries if not path.is_file()]:
        raise ValueError(f"--build {options.build}: there is no {missing[0]}")
    timing = _timing()
    for path in libraries:
        timing.contenders.flashcore.load(path)
    return _run(options, rows.serving(), {})


def _libraries(arguments: list[str]) -> dict[str, Path]:
    """Return the libraries by contender. The first one is FlashCore unless it has a name."""
    found: dict[str, Path] = {}
    for text in arguments:
        name, _, path = text.rpartition("=")
        key = name or (Path(path).parent.name if found else rows.FLASHCORE)
        if key in found or key in rows.PEERS:
            raise ValueError(f"--library {text}: two contenders would be called {key}. Write NAME=FILE")
        if not Path(path).is_file():
            raise ValueError(f"--library {text}: there is no such file")
        found[key] = Path(path)
    return found


def _timing() -> Any:
    try:
        from peerbench import timing  # noqa: PLC0415 - the checks of arguments do not need torch
    except ImportError as error:
        raise ValueError(f"measuring needs PyTorch: {error}") from error
    if not timing.torch.cuda.is_available():
        raise ValueError("measuring needs a CUDA GPU, and PyTorch finds none")
    return timing


def _run(options: argparse.Namespace, chosen: list[rows.Row], libraries: dict[str, Path]) -> int:
    """Measure row by row, and write all samples after each row."""
    timing = _timing()
    protocol = timing.Protocol(settle=options.settle, measure=options.seconds)
    seconds = {"settle_seconds": options.settle, "sample_seconds": options.seconds}
    name, multiprocessors, driver = timing.device()
    clock, rng = timing.Driver(), random.Random(1)  # noqa: S311 - an order, not a secret
    measured: list[samples.Measured] = []
    began = time.monotonic()
    for row in chosen:
        measured.append(timing.compare(row, libraries, clock, protocol, rng))
        print(page.line(measured[-1]), flush=True)
        run = samples.Run(
            device=name,
            multiprocessors=multiprocessors,
            driver=driver,
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            versions={**({"FlashCore": options.kernel} if options.kernel else {}), **timing.versions()},
            protocol={"layout": "bshd", **seconds, "flush_bytes": timing.FLUSH_BYTES},
            rows=tuple(measured),
        )
        options.out.write_bytes(samples.encode(run))
    print(f"{len(measured)} rows in {time.monotonic() - began:.0f} s: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""FlashCore's attention beside FlashAttention-3, cuDNN and FlashAttention-2: measure it on a GPU, draw it anywhere.

usage: python3 tools/bench/peers.py measure --library FILE [--library NAME=FILE ...] [--row B,H,S,D,MASK,DTYPE ...] --out FILE.json.xz
       python3 tools/bench/peers.py serving --build DIR [--suite NAME ...] --out FILE.json.xz
       python3 tools/bench/peers.py draw [--check]

`measure` times every row of the table with all contenders interleaved in one process (tools/bench/peerbench/timing.py) and keeps the
samples; it needs torch and a Hopper GPU, and takes about three minutes. A second library takes part under its NAME. `serving` does so
with the rows of serving, decode over caches and ragged prefill, in about a minute. `draw` writes docs/performance.md, its pictures and a part of README.md from the samples in docs/performance/; --check only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernel"), str(ROOT / "tools/bench")]

from peerbench import page, rows, samples, serving_page, serving_rows  # noqa: E402  the folders above are no packages that anybody installs

SAMPLES = ROOT / "docs/performance/peers.json.xz"
SERVING = ROOT / "docs/performance/serving.json.xz"
README = "README.md"


def main(argv: list[str]) -> int:
    """Measure or draw, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="time all contenders on this GPU")
    measuring.add_argument("--library", action="append", required=True, metavar="[NAME=]FILE")
    measuring.add_argument("--row", action="append", metavar="B,H,S,D,MASK,DTYPE", help="instead of the whole table")
    measuring.add_argument("--layout", choices=("bshd", "bhsd"), default="bshd", help="of the tensors in memory")
    measuring.set_defaults(run=_measure)
    serving = commands.add_parser("serving", help="time decode and ragged prefill on this GPU")
    serving.add_argument("--build", type=Path, required=True, help="what flashcore-ci build made: a folder for each library")
    serving.add_argument("--suite", action="append", choices=sorted(serving_page.TABLES), help="instead of all of them")
    serving.set_defaults(run=_serving, layout="bshd")
    for command, settle, seconds in ((measuring, 0.7, 1.6), (serving, 0.4, 0.8)):
        command.add_argument("--settle", type=float, default=settle, help="seconds of each row before samples count")
        command.add_argument("--seconds", type=float, default=seconds, help="seconds of samples for each row")
        command.add_argument(
            "--kernel", default="", help="what ours is called on the page, such as its version in the tuning log"
        )
        command.add_argument("--out", type=Path, required=True)
    drawing = commands.add_parser("draw", help="write docs/performance.md and its pictures from the samples")
    drawing.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is not up to date")
    drawing.set_defaults(run=_draw)
    options = parser.parse_args(argv)
    try:
        return int(options.run(options))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"peers: {error}\n")
        return 2


def _libraries(named: list[str]) -> dict[str, Path]:
    """Libraries by the contender's name: the first is ours, the others say theirs."""
    found: dict[str, Path] = {}
    for text in named:
        name, _, path = text.rpartition("=")
        key = name or (rows.OURS if not found else Path(path).parent.name)
        if key in found or key in rows.PEERS:
            raise ValueError(f"--library {text}: two contenders would be called {key}; write NAME=FILE")
        if not Path(path).is_file():
            raise ValueError(f"--library {text}: there is no such file")
        found[key] = Path(path)
    return found


def _measure(options: argparse.Namespace) -> int:
    libraries = _libraries(options.library)
    wanted = [rows.parse(text) for text in options.row] if options.row else rows.table() + rows.long_context()
    timing = _timing()
    return _run(options, wanted, page.line, lambda row, *how: timing.compare(row, libraries, *how))


def _serving(options: argparse.Namespace) -> int:
    operations = ("attention", "decode")
    libraries = [options.build / name / f"libflashcore_{name}.so" for name in operations]
    absent = [path for path in libraries if not path.is_file()]
    if absent:
        raise ValueError(f"--build {options.build}: there is no {absent[0]}")
    wanted = [row for row in serving_rows.table() if not options.suite or row.suite in options.suite]
    _timing()
    from flashcore import load  # noqa: PLC0415 - as torch, it is not needed to draw
    from peerbench import serving  # noqa: PLC0415

    for path in libraries:
        load(path)
    return _run(options, wanted, serving_page.line, serving.compare)


def _timing() -> Any:
    try:
        from peerbench import timing  # noqa: PLC0415 - torch is not needed to draw
    except ImportError as error:
        raise ValueError(f"measuring needs PyTorch: {error}") from error
    if not timing.torch.cuda.is_available():
        raise ValueError("measuring needs a CUDA GPU, and PyTorch sees none")
    return timing


def _run(
    options: argparse.Namespace, wanted: Sequence[Any], line: Callable[[samples.Measured], str], compare: Callable[..., Any]
) -> int:
    """Measure row by row; after each of them what was measured is kept, whatever comes."""
    timing = _timing()
    protocol = timing.Protocol(settle=options.settle, measure=options.seconds, layout=options.layout)
    name, multiprocessors, driver = timing.device()
    clock, rng = timing.Driver(), random.Random(1)  # noqa: S311  an order, not a secret
    done: list[samples.Measured] = []
    began = time.monotonic()
    for row in wanted:
        done.append(compare(row, clock, protocol, rng))
        print(line(done[-1]), flush=True)
        run = samples.Run(
            device=name,
            multiprocessors=multiprocessors,
            driver=driver,
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            versions={**({"FlashCore": options.kernel} if options.kernel else {}), **timing.versions()},
            protocol={
                "layout": options.layout,
                "settle_seconds": options.settle,
                "sample_seconds": options.seconds,
                "flush_bytes": timing.FLUSH_BYTES,
            },
            rows=tuple(done),
        )
        options.out.write_bytes(samples.encode(run))
    print(f"{len(done)} rows in {time.monotonic() - began:.0f} s: {options.out}")
    return 0


def _draw(options: argparse.Namespace) -> int:
    run, serving = samples.read(SAMPLES), samples.read(SERVING)
    files = {
        **page.files(run, serving),
        README: page.readme((ROOT / README).read_text(encoding="utf-8"), run, serving),
    }
    if not options.check:
        for path, text in files.items():
            (ROOT / path).write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in files.items() if not _same(ROOT / path, text)]
    sys.stderr.writelines(f"{path}: not as the samples give it; make performance\n" for path in stale)
    return 1 if stale else 0


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

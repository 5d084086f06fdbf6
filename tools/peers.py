"""FlashCore's attention beside FlashAttention-3, cuDNN and FlashAttention-2: measure it on a GPU, draw it anywhere.

usage: python3 tools/peers.py measure --library FILE [--library NAME=FILE ...] [--row B,H,S,D,MASK,DTYPE ...] --out FILE.json.xz
       python3 tools/peers.py draw [--check]

`measure` times every row of the table with all contenders interleaved in one process (tools/peerbench/timing.py) and keeps the
samples; it needs torch and a Hopper GPU, and takes about three minutes. A second library takes part under its NAME. `draw` writes
docs/performance.md, its pictures and a part of README.md from the samples in docs/performance/; --check only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "kernel"), str(ROOT / "tools")]

from peerbench import page, rows, samples  # noqa: E402  the folders above are no packages that anybody installs

SAMPLES = ROOT / "docs/performance/peers.json.xz"
README = "README.md"


def main(argv: list[str]) -> int:
    """Measure or draw, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="time all contenders on this GPU")
    measuring.add_argument("--library", action="append", required=True, metavar="[NAME=]FILE")
    measuring.add_argument("--row", action="append", metavar="B,H,S,D,MASK,DTYPE", help="instead of the whole table")
    measuring.add_argument("--settle", type=float, default=0.7, help="seconds of each row before samples count")
    measuring.add_argument("--seconds", type=float, default=1.6, help="seconds of samples for each row")
    measuring.add_argument("--kernel", default="", help="what ours is called on the page, such as its version in the tuning log")
    measuring.add_argument("--layout", choices=("bshd", "bhsd"), default="bshd", help="of the tensors in memory")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.set_defaults(run=_measure)
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
    try:
        from peerbench import timing  # noqa: PLC0415 - torch is not needed to draw
    except ImportError as error:
        raise ValueError(f"measuring needs PyTorch: {error}") from error
    if not timing.torch.cuda.is_available():
        raise ValueError("measuring needs a CUDA GPU, and PyTorch sees none")
    protocol = timing.Protocol(settle=options.settle, measure=options.seconds, layout=options.layout)
    name, multiprocessors, driver = timing.device()
    clock, rng = timing.Driver(), random.Random(1)  # noqa: S311  an order, not a secret
    done: list[samples.Measured] = []
    began = time.monotonic()
    for row in wanted:
        done.append(timing.compare(row, libraries, clock, protocol, rng))
        print(page.line(done[-1]), flush=True)
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
        options.out.write_bytes(samples.encode(run))  # after every row: what was measured is kept, whatever comes
    print(f"{len(done)} rows in {time.monotonic() - began:.0f} s: {options.out}")
    return 0


def _draw(options: argparse.Namespace) -> int:
    run = samples.read(SAMPLES)
    files = {**page.files(run), README: page.readme((ROOT / README).read_text(encoding="utf-8"), run)}
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

"""docs/performance.md and its pictures, from the samples of one run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from peerbench import plot, serving_page
from peerbench.rows import HEADS, OURS, PEERS, Row
from peerbench.samples import Measured, Run, geometric_mean

PAGE = "docs/performance.md"
PICTURES = "docs/performance"
NAMES = {OURS: "FlashCore", **PEERS}
COLOURS = {OURS: "#c0392b", "fa3": "#2471a3", "cudnn": "#239b56", "fa2": "#909497"}
ABSENT = "n/a"
SHOWN = (512, 2048, 8192)
BEGIN, END = "<!-- samples: begin -->", "<!-- samples: end -->"

TOP = """\
# FlashCore compared with its peers

{lead}
A ratio says how many times as long a peer takes. **Above 1, FlashCore is faster.** Only ratios carry over to another machine.
`python3 tools/bench/peers.py draw` writes this page from [the samples](performance/peers.json.xz) (`make performance`). Do not edit it.

{device}, {multiprocessors} multiprocessors, driver {driver}, {date}. {versions}.

- Forward attention with softmax scale 1/√D on random normal inputs.
- All kernels run on the same tensors ({layout} in memory) in one process. Their order is random and balanced by position and by predecessor.
- Before each launch the L2 is overwritten. The first {settle} s of a row let the clock settle and are not counted.
- TFLOP/s count only the products that a mask does not hide.
- "Cycles" multiplies each sample by the SM clock during it (clock64 against globaltimer, in the stream). This removes the effect of the
  GPU's power limit.
- Each figure is a median of {fewest} to {most} rounds.
- The best peer is the faster of FlashAttention-3 and cuDNN on that row. {absent} means that a kernel was not measured, and
  [Missing](#missing) says why.
"""

AGAIN = """\
## Repeat the measurement

You need a Hopper GPU, PyTorch 2.11 or newer, and a build (`flashcore-ci build`):

```bash
make peers        # time every prefill row with every installed peer, in about three minutes
make serving      # the same for decode and ragged prefill, in about one minute
make performance  # write this page
```

FlashAttention-3 takes part if `flash_attn_interface` can be imported, for example from the package `tokenspeed-fa3`. cuDNN and
FlashAttention-2 are PyTorch's own backends.
"""


def files(run: Run, serving: Run | None = None) -> dict[str, str]:
    """Every generated file by its path below the root of the repository; ``serving`` are the samples of the serving rows."""
    table = [measured for measured in run.rows if not measured.row.long]
    long = [measured for measured in run.rows if measured.row.long]
    parts = [_top(run), _summary(table)]
    pictures = {}
    for d in HEADS:
        rows = [measured for measured in table if measured.row.d == d]
        if rows:
            pictures[f"{PICTURES}/d{d}.svg"] = _picture(f"Attention forward, head dimension {d}, fp16", rows)
            parts.append(f"## Head dimension {d}\n\n![TFLOP/s by sequence length](performance/d{d}.svg)\n\n{_table(rows)}")
    if long:
        for d in sorted({measured.row.d for measured in long}):
            rows = [measured for measured in long if measured.row.d == d]
            pictures[f"{PICTURES}/long-d{d}.svg"] = _picture(f"One long sequence, 16 heads of {d}, fp16", rows)
        parts.append(_long(run, long))
    parts.append(_missing(run.rows))
    if serving is not None:
        pictures[serving_page.PICTURE] = serving_page.picture(serving)
        parts.append(serving_page.section(serving))
    parts.append(AGAIN)
    return {PAGE: "\n".join(part for part in parts if part), **pictures}


def readme(text: str, run: Run, serving: Run | None = None) -> str:
    """README.md with the part between its two markers as these samples give it; ValueError when it has no such part."""
    before, opened, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not opened or not closed:
        raise ValueError(f"README.md has no part between {BEGIN} and {END}")
    decode = f"\n{serving_page.in_short(serving)}" if serving is not None else ""
    return f"{before}{BEGIN}\n{_in_short(run)}{decode}{END}{after}"


def _in_short(run: Run) -> str:
    """For the README: three lengths of each head dimension, and every row on which a peer is ahead."""
    shown = [one for one in run.rows if not one.row.long and one.row.dtype == "fp16" and one.row.s in SHOWN]
    lines = [
        f"Attention forward in fp16 on one {run.device} ({run.date}). A ratio says how many times as long a peer takes: above 1, FlashCore is",
        "faster. The kernels ran interleaved in one process, with a cold L2 and settled clocks. Figures are medians.",
        f"{_versions(run)}. FA2 and cuDNN are PyTorch's backends.\n",
        "| D | B·H·S | mask | TFLOP/s | x FA2 | x cuDNN | x FA3 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in shown:
        ratios = [f"{ratio:.2f}" if (ratio := one.ratio(peer)) is not None else ABSENT for peer in ("fa2", "cudnn", "fa3")]
        lines.append(f"| {one.row.d} | {one.row.shape} | {one.row.mask} | {_speed(one, OURS)} | {' | '.join(ratios)} |")
    lines.append(f"\n{_lead(run)}")
    lines.append("[All rows, in time and in cycles, with plots](docs/performance.md).\n")
    return "\n".join(lines)


def _lead(run: Run) -> str:
    """How many rows FlashCore leads, and each row where a peer is ahead."""
    compared = [(one, ratio) for one in run.rows if (ratio := one.ratio(one.best_peer())) is not None]
    behind = [
        f"D={one.row.d} {one.row.shape} {one.row.mask} {one.row.dtype} ({ratio:.3f})" for one, ratio in compared if ratio < 1
    ]
    least = "FlashCore is at least as fast as FA3 and cuDNN on"
    if not behind:
        return f"{least} all {len(compared)} prefill rows, long sequences included."
    ahead = len(compared) - len(behind)
    return f"{least} {ahead} of {len(compared)} prefill rows, long sequences included. A peer is ahead on {', '.join(behind)}."


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


def line(measured: Measured) -> str:
    """One row for a terminal."""
    cells = [f"{name} {series.time:8.4f} ms {measured.tflops(name):5.0f} TFLOP/s" for name, series in measured.series.items()]
    ratios = [
        f"x{name} {_number(measured.ratio(name))} ({_number(measured.ratio(name, cycles=True))} in cycles)"
        for name in measured.series
        if name != OURS and OURS in measured.series
    ]
    absent = [f"{name} missing: {why}" for name, why in measured.missing.items()]
    return f"D{measured.row.d} {measured.row.shape} {measured.row.mask} {measured.row.dtype}: " + "; ".join(
        cells + ratios + absent
    )


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _top(run: Run) -> str:
    counts = [len(series.ms) for measured in run.rows for series in measured.series.values()] or [0]
    return TOP.format(
        lead=_lead(run),
        device=run.device,
        multiprocessors=run.multiprocessors,
        driver=run.driver,
        date=run.date,
        versions=_versions(run),
        layout=str(run.protocol["layout"]).upper(),
        settle=run.protocol["settle_seconds"],
        fewest=min(counts),
        most=max(counts),
        absent=ABSENT,
    )


def _summary(table: Sequence[Measured]) -> str:
    lines = [
        "## At a glance\n",
        "| D | rows | at least as fast as the best peer, in time | in cycles | geometric mean of the ratios, in time | in cycles | smallest | largest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for d in HEADS:
        rows = [measured for measured in table if measured.row.d == d]
        time = [ratio for measured in rows if (ratio := measured.ratio(measured.best_peer())) is not None]
        cycles = [ratio for measured in rows if (ratio := measured.ratio(measured.best_peer(), cycles=True)) is not None]
        if not rows:
            continue
        ahead = [f"{sum(ratio >= 1.0 for ratio in ratios)} of {len(ratios)}" for ratios in (time, cycles)]
        least, most = (_number(pick(time, default=None)) for pick in (min, max))
        means = [_number(geometric_mean(ratios)) for ratios in (time, cycles)]
        lines.append(f"| {d} | {len(rows)} | {ahead[0]} | {ahead[1]} | {means[0]} | {means[1]} | {least} | {most} |")
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Measured]) -> str:
    """TFLOP/s of all, and the ratios in time and in cycles."""
    lines = [
        "| B·H·S | mask | dtype | "
        + " | ".join(NAMES.values())
        + " | best peer | x best peer, in time | in cycles | clock: FlashCore, best peer (MHz) |",
        "| --- " * (len(NAMES) + 7) + "|",
    ]
    for measured in rows:
        best = measured.best_peer()
        speeds = [_speed(measured, name) for name in NAMES]
        clocks = ", ".join(_clock(measured, name) for name in (OURS, best))
        lines.append(
            f"| {measured.row.shape} | {measured.row.mask} | {measured.row.dtype} | {' | '.join(speeds)} | "
            f"{NAMES[best] if best else ABSENT} | {_bold(measured.ratio(best))} | {_number(measured.ratio(best, cycles=True))} | {clocks} |"
        )
    return "\n".join(lines) + "\n"


def _speed(measured: Measured, name: str) -> str:
    speed = measured.tflops(name)
    return ABSENT if speed is None else f"{speed:.0f}"


def _clock(measured: Measured, name: str | None) -> str:
    series = measured.series.get(name or "")
    return ABSENT if series is None else f"{series.clock:.0f}"


def _bold(ratio: float | None) -> str:
    return f"**{ratio:.3f}**" if ratio is not None and ratio >= 1.0 else _number(ratio)


def _long(run: Run, rows: Sequence[Measured]) -> str:
    """Long sequences: the rate in each clock should not depend on the length."""
    base = {(measured.row.d, measured.row.causal): measured for measured in sorted(rows, key=lambda one: one.row.s, reverse=True)}
    lines = [
        "## One long sequence\n",
        *(f"![TFLOP/s by sequence length, D={d}](performance/long-d{d}.svg)\n" for d in sorted({m.row.d for m in rows})),
        "The tensor cores do at most 4096 FLOP per clock and multiprocessor.\n",
        "| D | S | mask | "
        + " | ".join(NAMES.values())
        + " | x FA3 in time | in cycles | FLOP per clock, FlashCore | share of the shortest row |",
        "| --- " * (len(NAMES) + 7) + "|",
    ]
    for measured in rows:
        row: Row = measured.row
        rate = measured.flops_per_clock(OURS, run.multiprocessors)
        first = base[row.d, row.causal].flops_per_clock(OURS, run.multiprocessors)
        share = ABSENT if rate is None or first is None else f"{100 * rate / first:.1f} %"
        lines.append(
            f"| {row.d} | {row.s} | {row.mask} | {' | '.join(_speed(measured, name) for name in NAMES)} | {_bold(measured.ratio('fa3'))} | "
            f"{_number(measured.ratio('fa3', cycles=True))} | {ABSENT if rate is None else f'{rate:.0f}'} | {share} |"
        )
    return "\n".join(lines) + "\n"


def _missing(rows: Sequence[Measured]) -> str:
    """Who was not measured where, and why; nothing when everyone was everywhere."""
    reasons: dict[tuple[str, str], list[Row]] = {}
    for measured in rows:
        for name, why in measured.missing.items():
            reasons.setdefault((name, why), []).append(measured.row)
    lines = [
        f"- {NAMES.get(name, name)}, on {len(where)} of {len(rows)} rows"
        f" (D {', '.join(str(d) for d in sorted({row.d for row in where}))}): {why}"
        for (name, why), where in reasons.items()
    ]
    return "\n".join(["## Missing\n", *(lines or ["Nothing: every kernel was measured on every row."])]) + "\n"


def _picture(title: str, rows: Sequence[Measured]) -> str:
    panels = []
    for causal, name in ((False, "full"), (True, "causal")):
        lines = []
        for contender, label in NAMES.items():
            chosen = [measured for measured in rows if measured.row.causal is causal and measured.row.dtype == "fp16"]
            points = [(measured.row.s, speed) for measured in chosen if (speed := measured.tflops(contender)) is not None]
            lines.append(plot.Line(name=label, colour=COLOURS[contender], points=points, strong=contender == OURS))
        panels.append(plot.Panel(title=name, lines=lines))
    return plot.draw(title, "TFLOP/s", panels)

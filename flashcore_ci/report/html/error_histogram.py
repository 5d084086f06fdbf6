"""Draw the errors against float64, the kernel's and PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Histogram
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.markup import Markup, join, prose, tag

KERNEL, PYTORCH = "error/ours/", "error/pytorch/"
TITLE = "Errors against float64"


def histogram(seen: Observation | None, *, most: int = 4) -> Markup:
    """Return histograms of ``most`` outputs, or why there are none."""
    if seen is None:
        return tag("figure", tag("h4", TITLE), tag("figcaption", "No data: its outputs were not compared."))
    if seen.missing is not None:
        why = f"No data: {seen.missing.code}: {seen.missing.message}."
        return tag("figure", tag("h4", TITLE), tag("figcaption", why))
    counted = dict(seen.histograms)
    outputs = [name.removeprefix(KERNEL) for name in counted if name.startswith(KERNEL)][:most]
    if not outputs:
        caption = "No data: this recording is older than the error histograms. Its largest errors are below."
        worst = (tag("li", prose(note)) for note in seen.notes if "largest" in note)
        return tag("figure", tag("h4", TITLE), tag("figcaption", caption, tag("ul", *worst)))
    figures = (_output(output, counted[f"{KERNEL}{output}"], counted.get(f"{PYTORCH}{output}")) for output in outputs)
    return tag("figure", tag("h4", TITLE), join(figures))


def _output(output: str, kernel: Histogram, pytorch: Histogram | None) -> Markup:
    low, high = extent([side for side in (kernel, pytorch) if side is not None])
    elements = sum(kernel.counts) + kernel.zeros + kernel.not_finite
    caption = f"{output}: {elements:,} elements, {kernel.zeros:,} exact, {kernel.not_finite:,} not finite"
    counts, outlined = _between(kernel, low, high), _between(pytorch, low, high) if pytorch else None
    picture = charts.histogram(counts, range(low, high + 1), f"errors of {caption}", outlined=outlined)
    outline = " Outline: PyTorch's errors." if pytorch else ""
    return join((picture, tag("figcaption", f"{caption}. Counts between powers of two.{outline}")))


def extent(sides: Sequence[Histogram]) -> tuple[int, int]:
    """Return the range of exponents with a count."""
    filled = [side.first + index for side in sides for index, count in enumerate(side.counts) if count] or [sides[0].first]
    return min(filled), max(filled) + 1


def _between(side: Histogram, low: int, high: int) -> tuple[int, ...]:
    counts = dict(enumerate(side.counts, start=side.first))
    return tuple(counts.get(exponent, 0) for exponent in range(low, high))

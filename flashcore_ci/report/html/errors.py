"""How the errors against float64 are distributed, ours and PyTorch's own."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Histogram
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.markup import Markup, join, tag

OURS = "error/ours/"
TITLE = "Errors against float64"


def histogram(seen: Observation | None) -> Markup:
    """The histograms of the workload's outputs, one below the other; or why there is none."""
    if seen is None:
        return tag("figure", tag("h4", TITLE), tag("figcaption", "Not here: its outputs were not compared."))
    if seen.missing is not None:
        why = f"Not here: {seen.missing.code}: {seen.missing.message}."
        return tag("figure", tag("h4", TITLE), tag("figcaption", why))
    found = [(name.removeprefix(OURS), counted) for name, counted in seen.histograms if name.startswith(OURS)]
    if not found:
        said = "Not here: this recording is from before errors were counted; its largest are below."
        worst = (tag("li", note) for note in seen.notes if "largest" in note)
        return tag("figure", tag("h4", TITLE), tag("figcaption", said, tag("ul", *worst)))
    return tag("figure", tag("h4", TITLE), join(_one(output, counted) for output, counted in found))


def _one(output: str, counted: Histogram) -> Markup:
    counts, edges = trimmed(counted)
    said = f"{output}: {counted.zeros} exact, {sum(counted.counts)} between powers of two, {counted.not_finite} not finite"
    return join((charts.histogram(counts, edges, f"errors of {said}"), tag("figcaption", said)))


def trimmed(counted: Histogram) -> tuple[Sequence[int], Sequence[int]]:
    """The counts from the first to the last that is not zero, and the exponents of their edges."""
    filled = [index for index, count in enumerate(counted.counts) if count] or [0]
    first, last = filled[0], filled[-1] + 1
    return counted.counts[first:last], range(counted.first + first, counted.first + last + 1)

"""Compare two revisions of the checkout on this machine's GPU."""

from __future__ import annotations

from dataclasses import replace

from flashcore_ci.adapters import git
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Report
from flashcore_ci.run import gate
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.run.scratch import scratch_folder


def compare(request: Request, base: str, head: str | None, progress: Progress) -> Report:
    """Judge the suite's gates on comparisons of ``head`` (None: this checkout as it is) with ``base``.

    Both are git revisions. UsageError when git does not know one.
    """
    request = replace(request, out=request.out.absolute(), live=True, kinds=(Kind.COMPARISON,))
    with scratch_folder() as logs:
        request = replace(request, base=git.commit_of(request.root, base, logs=logs))
        if head is not None:
            commit = git.commit_of(request.root, head, logs=logs)
            request = replace(request, commit=commit, checkout=check_out(commit, request, logs))
        return gate.gate(request, progress)

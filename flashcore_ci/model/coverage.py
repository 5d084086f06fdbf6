"""Which kernels the digests of a workload do not cover."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

Manifest = Mapping[str, Collection[str]]
"""The entry functions of each subject of a suite. A build that has another one is an error."""


def foreign_entries(manifest: Manifest, subject: str, named: Collection[str] = ()) -> dict[str, str]:
    """Return the entry functions that other subjects have and ``subject`` has not, each with its subject.

    ``named``: what the workload says it launches. A kernel that is compiled when it runs may have the name of another subject's.
    """
    own = set(manifest.get(subject, named))
    return {symbol: owner for owner, symbols in manifest.items() for symbol in symbols if symbol not in own}


def describe_foreign(launched: Iterable[str], foreign: Mapping[str, str]) -> str:
    """Return which of the launched kernels is ``foreign``, or ""."""
    found = sorted(foreign.keys() & set(launched))
    return f"{found[0]} ran, a kernel of subject {foreign[found[0]]}" if found else ""

"""The in-toto statement of a run: what was measured, of which commit, and with what tools and suite. Pure.

The same run gives the same bytes, so a statement is checked by writing it again. https://in-toto.io/Statement/v1
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.manifest import EVIDENCE, MANIFEST, PLAN
from flashcore_ci.store.run import Run

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:flashcore-ci:evidence:v1"
BUNDLE = "bundle"
COMMIT = "commit"
MAX_BYTES = 16 << 20
"""GitHub's limit of a predicate, and far above any statement."""

Json = dict[str, Any]


def statement_of(
    run: Run, files: Mapping[str, bytes], *, bundle: str, toolchain: str, invocation: str = "", commit: str = ""
) -> bytes:
    """Write the statement of a run.

    ``files`` are those of the run, ``bundle`` and ``toolchain`` the SHA-256 of the packed run and of the pinned tools.
    ``invocation`` is the address of the workflow run. ``commit`` is for evidence that names none: EvidenceError without both.
    """
    provenance = run.evidence.provenance
    commit = provenance.commit or commit
    if not commit:
        raise EvidenceError("the evidence names no commit, so there is nothing to state", fix="collect in a git checkout")
    statement = {
        "_type": TYPE,
        "subject": list(_subjects(run, files, bundle, commit)),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "materials": [
                _resource("toolchain.lock", sha256=toolchain),
                _resource(PLAN, sha256=_sha256(files[PLAN])),
            ],
            "suite": {"name": run.plan.suite, "file": run.plan.suite_file},
            "tool": {"name": "flashcore-ci", "version": provenance.version},
            "tools": [{"name": name, "version": version} for name, version in provenance.tools],
            "compilers": sorted({build.compiler for build in run.evidence.builds}),
            "device": None if provenance.device is None else asdict(provenance.device),
            "machineClass": provenance.machine_class,
            "collectedAt": provenance.collected_at,
            "dirty": provenance.dirty,
            "invocation": invocation,
        },
    }
    return (json.dumps(statement, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def predicate_of(statement: bytes) -> bytes:
    """Return the predicate of a statement that this module wrote, for a tool that signs it."""
    return (json.dumps(json.loads(statement)["predicate"], indent=1, sort_keys=True) + "\n").encode("ascii")


def differences(given: bytes, expected: bytes) -> tuple[str, ...]:
    """Say where ``given`` is not the statement that belongs to the run: nothing if every byte is equal."""
    if given == expected:
        return ()
    try:
        found, right = json.loads(given[:MAX_BYTES]), json.loads(expected)
        parts = [_part(found, right, key) for key in ("_type", "predicateType", "subject")]
        inner = found.get("predicate")
        parts += [_part(inner, right["predicate"], key) for key in right["predicate"]]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ("the statement is not an in-toto statement of this tool",)
    return tuple(f"the statement's {part} is not that of the evidence" for part in parts if part) or (
        "the statement has other bytes than the evidence gives",
    )


def invocation_of(given: bytes) -> str:
    """Return the address of the workflow run that a statement names, or nothing."""
    try:
        named = json.loads(given[:MAX_BYTES])["predicate"]["invocation"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return named if isinstance(named, str) else ""


def _part(found: Json, right: Json, key: str) -> str:
    return "" if found.get(key) == right[key] else key.removeprefix("_")


def _subjects(run: Run, files: Mapping[str, bytes], bundle: str, commit: str) -> Iterator[Json]:
    yield _resource(BUNDLE, sha256=bundle)
    yield _resource(COMMIT, gitCommit=commit)
    for name in (MANIFEST, PLAN, EVIDENCE):
        yield _resource(name, sha256=_sha256(files[name]))
    for build in run.evidence.builds:
        digests = {"library": build.library_digest, "launcher": build.launcher, "binding": build.binding, "subject": build.source}
        yield _resource(f"build/{build.subject}", **digests)
        for entry in build.entries:
            yield _resource(f"entry/{build.subject}/{entry.symbol}", machineCode=entry.digest)


def _resource(name: str, **digests: str) -> Json:
    return {"name": name, "digest": {kind: value for kind, value in digests.items() if value}}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

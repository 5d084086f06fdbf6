"""What a gate hands to the shards that it runs on its own machine: the plan, and the builds that it has checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.bounded.files import MAX_RECORD
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_new
from flashcore_ci.store.run import decode_plan, encode_plan

NAME = "given-{digest}.json"
FIX = "omit --given, then the subjects are asked and the builds are checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """The checked builds of a plan."""

    builds: tuple[BuildEvidence, ...]


def write(plan: Plan, builds: tuple[BuildEvidence, ...], folder: Path) -> Path:
    """Write a file whose name is its digest. The name comes to a shard in its command line."""
    parts = (encode_plan(plan), encode(Builds(builds=builds)))
    data = b"%d\n%s%s" % (len(parts[0]), *parts)
    file = folder / NAME.format(digest=hashlib.sha256(data).hexdigest())
    write_new(file, data)
    return file


def read(file: Path) -> tuple[Plan, tuple[BuildEvidence, ...]]:
    """Read such a file. EvidenceError unless its content is that of its name."""
    try:
        data = files.read(file, limit=2 * MAX_RECORD)
    except OSError as error:
        raise EvidenceError(f"{file}: cannot be read: {error.strerror}", fix=FIX) from None
    if file.name != NAME.format(digest=hashlib.sha256(data).hexdigest()):
        raise EvidenceError(f"{file}: its content is not that of its name", fix=FIX)
    length, _, rest = data.partition(b"\n")
    if not length.isdigit() or len(length) > len(str(2 * MAX_RECORD)):
        raise EvidenceError(f"{file}: its first line is not a length", fix=FIX)
    plan = decode_plan(rest[: int(length)], where=str(file))
    return plan, decode(Builds, rest[int(length) :], where=str(file)).builds

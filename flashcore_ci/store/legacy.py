"""Evidence of the first schema. Two committed recordings stay readable, and nothing else."""

from __future__ import annotations

import hashlib
import json

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.store.codec import decode

EVIDENCE_V1 = "evidence-v1"
V1_MARK = b'"schema": "evidence-v1"'
READABLE = frozenset(
    {
        "8ebe90e3e64f21191c9f7a5ac7d1cf4ab23b2dcc0d7288ffafac4bd4f4fa83bd",
        "d33d638b887f97919417d48c5ec82d67205445accac5fdc534465e0e4f98ed48",
        "c07074e1fbc29cc2d358ced211f7cd651ee5178427d5696da957129def2bfd5f",  # until the next recording
        "8072b2dbf49c2a861777bd8a7ccd13a2c9d0c79d237e5c253434c3a6fca4322e",  # until the next recording
        "d87f74f24a51c35f1469375a8efc518ba4850da2cc8ecdc3c87d13f9007a0ee3",  # until the next recording
        "1ecac0df5b9707f3dda38140bd8cc4307fb72266fb0c0a4429ac06eede4098a2",  # until the next recording
    }
)
"""SHA-256 of ``evidence.json`` in the two bundles that were committed at c3d5a88."""


def is_v1(data: bytes) -> bool:
    """Tell whether ``evidence.json`` is of the first schema."""
    return data.rstrip().removesuffix(b"}").rstrip().endswith(V1_MARK)


def decode_v1(data: bytes, *, where: str) -> Evidence:
    """Read old evidence with empty new fields. EvidenceError unless it is one of the two known files."""
    if hashlib.sha256(data).hexdigest() not in READABLE:
        raise EvidenceError(f"{where}: schema {EVIDENCE_V1} is no longer read", fix="collect again with this version")
    record = json.loads(data)
    for observation in record["observations"]:
        observation.update(attempt=1, isolation=None, jit=[])
    record.update(attempts=[], shard=None, schema="evidence-v2")
    return decode(Evidence, json.dumps(record).encode(), where=where)

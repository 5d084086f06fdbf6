"""Stand in for GitHub's command line: verify from a table of signatures, and refuse every other question.

The table maps the SHA-256 of a file to what ``gh attestation verify --format json`` says of it.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

VALUES = ("--repo", "--cert-identity", "--signer-digest", "--source-ref", "--source-digest", "--predicate-type", "--format")
MERGE = tuple(name for name in VALUES if name not in ("--signer-digest", "--source-ref"))
"""What `merge` asks: it knows no commit of the workflow, and no ref of the run."""

if sys.argv[1:3] != ["attestation", "verify"] or not os.environ.get("GH_TOKEN"):
    sys.exit(f"gh: not understood: {sys.argv[1:]}")
words = sys.argv[4:]
if sorted(words[:-1:2]) not in (sorted(VALUES), sorted(MERGE)) or words[-1] != "--deny-self-hosted-runners":
    sys.exit(f"gh: not understood: {words}")
given = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
digest = hashlib.sha256(Path(sys.argv[3]).read_bytes()).hexdigest()
found = []
for each in json.loads(Path(os.environ["SIGNED"]).read_text()).get(digest, []):
    certificate, statement = each["signature"]["certificate"], each["statement"]
    right = (
        certificate["sourceRepositoryURI"] == "https://github.com/" + given["--repo"],
        certificate["subjectAlternativeName"] == given["--cert-identity"],
        "--signer-digest" not in given or certificate["buildSignerDigest"] == given["--signer-digest"],
        "--source-ref" not in given or certificate["sourceRepositoryRef"] == given["--source-ref"],
        certificate["sourceRepositoryDigest"] == given["--source-digest"],
        statement["predicateType"] == given["--predicate-type"],
        certificate["runnerEnvironment"] == "github-hosted",
        given["--format"] == "json",
    )
    if all(right):
        found.append({"attestation": {}, "verificationResult": each})
if not found:
    sys.exit("gh: no attestations found")
sys.stdout.write(json.dumps(found))

"""Build every version of the kernels that the git history has, with the pinned toolchain, as far as ROWS need it.

``python tools/study/kernel_versions.py OUT`` unpacks ``kernel`` of each commit that touched it, keeps only the entry functions of
ROWS in its tables, and compiles them. OUT gets ``versions.json``, the libraries, and the Python files of each version.
``kernel_versions_gpu.py`` measures them, and ``kernel_versions_add.py`` adds the result to a history.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import process
from flashcore_ci.build import objects, subjects, toolchain
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.compiler import BuildContext, find_host_compiler
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.system_files import SystemFiles
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec, Problem
from flashcore_ci.model.suite import Workload
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("FLASHCORE_CI_HOME") or Path.home() / ".cache/flashcore-ci")
TRACKED = ("kernel/include", "kernel/src", "kernel/instantiations", "kernel/variants.toml")
KEPT = re.compile(r"attention_fwd_d\d+_fp16_full$|prepare|decode_d128_bf16(_e4m3)?$")
FIRST_SUBJECT = {"decode": "854520a"}
"""Commits that wrote the subject of kernels that were there before."""
NAMES = ("attention", "decode")
ROWS = (
    "prefill-fp16-b16-h16-s2048-d64",
    "prefill-fp16-b16-h16-s2048-d128",
    "prefill-fp16-b16-h8-s2048-d256",
    "decode-bf16-b64-h32-kv8-s8192-d128",
    "decode-bf16-b64-h32-kv8-s8192-d128-page64",
    "decode-e4m3-bf16-b64-h32-kv8-s16384-d128-page0",
)
SUITE = load(Path("gates/hopper.toml"), root=ROOT, runs=False)
WORKLOADS = [workload for workload in SUITE.workloads if workload.id in ROWS]


def git(*arguments: str) -> bytes:
    """Run git in this checkout."""
    with tempfile.TemporaryDirectory() as logs:
        done = process.run(["git", "-C", str(ROOT), *arguments], logs=Path(logs), name="git", timeout=60)
        if done.returncode:
            raise SystemExit(done.error_text())
        return done.stdout.read_bytes()


def unpack(commit: str, root: Path) -> None:
    """Make ``root`` the commit's kernel, with only the entry functions of ROWS."""
    shutil.rmtree(root, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "kernel"))) as archive:
        archive.extractall(root, filter="data")
    if (root / "kernel/src/decode.cu").is_file() and not (root / "kernel/subjects/decode.py").is_file():
        with tarfile.open(
            fileobj=io.BytesIO(git("archive", FIRST_SUBJECT["decode"], "kernel/flashcore", "kernel/subjects"))
        ) as archive:
            archive.extractall(root, filter="data")
    table = root / "kernel/variants.toml"
    text = table.read_text(encoding="utf-8")
    blocks = re.compile(r'\[\[\w+\.entries\]\]\nsymbol = "(\w+)"\n(?:\w+ = .*\n)*')
    text = blocks.sub(lambda m: m[0] if KEPT.search(m[1]) else "", text)
    empty = re.compile(r"^\[(\w+)\][^\n]*\n", re.MULTILINE)
    text = empty.sub(lambda m: m[0] if f"[[{m[1]}.entries]]" in text else f"{m[0]}entries = []\n", text)
    table.write_text(text, encoding="utf-8")
    for header in root.glob("kernel/include/flashcore/*/*variants.h"):
        head, *names = re.split(r"\n    X\((\w+)_variant\)(?: \\)?", header.read_text(encoding="utf-8"))
        kept = [name for name in names[::2] if KEPT.search(name)]
        header.write_text(
            " \\\n".join([head.removesuffix(" \\"), *(f"    X({name}_variant)" for name in kept)]) + "\n", encoding="utf-8"
        )


def describe(root: Path, name: str) -> Description | None:
    """Ask the commit's subject what it builds. None: it has no such subject."""
    path = root / f"kernel/subjects/{name}.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"{name}_then", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = module.build(root)
    known = {field.name for field in fields(EntrySpec)}
    entries = (
        EntrySpec(**{key: tuple(v) if isinstance(v, list) else v for key, v in each.items() if key in known})
        for each in build.pop("entries")
    )
    made = {key: tuple(value) if isinstance(value, list) else value for key, value in build.items()}
    problems = []
    for workload in (workload for workload in WORKLOADS if workload.subject == name):
        try:
            problem = module.problem(dict(workload.params))
        except ValueError:  # the version does not know this head dimension or cache
            continue
        problems.append(Problem(workload=workload.id, **{**problem, "entries": tuple(problem["entries"])}))
    spec_of = BuildSpec(**made, entries=tuple(entries), compile=SUITE.build)
    return Description(subject=name, file=f"kernel/subjects/{name}.py", build=spec_of, problems=tuple(problems))


def built(description: Description, context: BuildContext) -> tuple[BuildEvidence, dict[str, tuple[str, str]]]:
    """Compile what is new. Sources that differ in comments only share an object. Also digest each source's machine and host code."""
    assert description.build is not None
    results: subjects.Results = {}
    made: subjects.Results = {}
    for source in subjects.all_sources(description.build):
        unit = objects.make_unit(source, description.build.includes, description.build.compile, context)
        tokens = context.sources.c_digest(context.sources.closure(source, description.build.includes))
        by_text = replace(unit, key=digest_of("tokens", context.toolchain.digest, source, tokens))
        made[source] = results[unit.key] = objects.cached_unit(by_text, context) or objects.compile_unit(by_text, context)
    codes = {
        Path(source).stem: (unit.machine_code, unit.host_object)
        for source, unit in made.items()
        if isinstance(unit, objects.CompiledUnit)
    }
    return subjects._build_evidence(description, results, context), codes  # noqa: SLF001


def add_version(row: dict[str, Any], names: Sequence[str], out: Path) -> None:
    """Build these subjects of one commit, and keep libraries and Python files."""
    root, tools, host = out / "checkout", toolchain.find(HOME), find_host_compiler()
    assert tools is not None
    unpack(row["commit"], root)
    system = SystemFiles(root=root, toolchain=tools.top, folders=(*tools.includes, *host.includes), libraries=())
    for name in names:
        description = describe(root, name)
        if description is None or not (root / f"kernel/src/{name}.cu").is_file():
            row["builds"][name] = {"error": "none yet"}
            continue
        with tempfile.TemporaryDirectory(dir=out) as made:
            cache = Cache(folder=out / "objects")
            context = BuildContext(
                sources=Sources(root), toolchain=tools, host=host, system=system, cache=cache, out=Path(made), libraries={}
            )
            build, codes = built(description, context)
            texts = {"description": encode(description), "evidence": encode(build)}
            found = row["builds"][name] = {"codes": codes, **{key: json.loads(text) for key, text in texts.items()}}
            if not build.error:
                data = Path(made, build.library).read_bytes()
                found["library"] = f"{hashlib.sha256(data).hexdigest()[:16]}.so"
                (out / "libraries").mkdir(exist_ok=True)
                (out / "libraries" / found["library"]).write_bytes(data)
        print(time.strftime("%H:%M:%S"), row["commit"][:10], name, build.error or build.library_digest[:10], flush=True)
    python = sorted(path for folder in ("flashcore", "subjects") for path in (root / "kernel" / folder).glob("*.py"))
    row["python"] = digest_of([(p.name, p.read_text(encoding="utf-8")) for p in python])[:16]
    for path in python:
        target = out / "python" / row["python"] / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def specify(row: dict[str, Any], name: str) -> Description:
    """Return a subject's description in a version."""
    return decode(Description, json.dumps(row["builds"][name]["description"]).encode(), where=row["commit"])


def code_of(row: dict[str, Any], workload: Workload) -> str | None:
    """Name the machine code of a row's entry functions, with the code that launches them. None: not built."""
    build = row["builds"].get(workload.subject, {})
    problems = build["description"]["problems"] if "library" in build else ()
    entries = next((each["entries"] for each in problems if each["workload"] == workload.id), None)
    if entries is None:
        return None
    return digest_of([build["codes"][entry] for entry in sorted(entries)])[:16]


def to_measure(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """List each row with the first commit of each code, and the newest commit last."""
    versions: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for workload in WORKLOADS:
        names: dict[str, str] = {}
        for row in found:
            code = code_of(row, workload)
            if code is not None and (code not in names or row is found[-1]):
                names.pop(code, None)
                names[code] = name = f"{row['commit'][:10]}-{workload.subject}"
                library = row["builds"][workload.subject]["library"]
                versions[name] = {"subject": workload.subject, "library": library, "python": row["python"]}
        rows[workload.id] = {"params": dict(workload.params), "versions": list(names.values())}
    return {"versions": versions, "rows": rows}


def main(arguments: list[str]) -> int:
    """Build what is missing: the named ones first (commit:subject), then all."""
    out = Path(arguments[0]).resolve()
    file = out / "versions.json"
    lines = git("log", "--reverse", "--topo-order", "--format=%H%x09%ct%x09%s", "--", *TRACKED).decode().splitlines()
    rows = [dict(zip(("commit", "at", "subject"), line.split("\t", 2), strict=True)) for line in lines]
    known = {row["commit"]: row for row in json.loads(file.read_text(encoding="utf-8"))} if file.exists() else {}
    found: list[dict[str, Any]] = [{**row, "builds": known.get(row["commit"], {}).get("builds", {})} for row in rows]
    wanted = [each.split(":") for each in arguments[1:]] or [[row["commit"], name] for row in rows for name in NAMES]
    for commit, name in wanted:
        row = next(row for row in found if row["commit"].startswith(commit))
        if name not in row["builds"]:
            add_version(row, [name], out)
            found = [known.get(row["commit"], {}) | row for row in found]
            file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    (out / "measure.json").write_text(json.dumps(to_measure(found)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

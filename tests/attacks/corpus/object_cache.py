"""A cached object that is not what the compiler would make now."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.build import cache as caching
from flashcore_ci.build import objects
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.library import LinkedLibrary
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.system_files import SystemFiles
from flashcore_ci.model.options import CompileOptions

KEYS = tuple(hashlib.sha256(name).hexdigest() for name in (b"slow", b"fast"))
Change = Callable[[Path], None]
OPTIONS = CompileOptions(architectures=("sm_90a",))
SOURCES = {
    "kernel/a.cu": '#include "b.h"\n#if __has_include("c.h")\nint c;\n#endif\n',
    "kernel/second/b.h": "int b;\n",
}


def poison(name: str, change: Callable[[Cache], None]) -> Attack:
    """Keep two libraries, change the cache, and load the first one."""

    def attempt(folder: Path) -> bool:
        cache = Cache(folder=folder)
        for key in KEYS:
            with cache.workspace() as work:
                (work / "made").write_text(key)
                digest = hashlib.sha256(key.encode()).hexdigest()
                cache.keep(key, work / "made", LinkedLibrary(key=key, digest=digest, host_code="code"))
        change(cache)
        found = cache.load(LinkedLibrary, KEYS[0])
        return found is not None and (found.key != KEYS[0] or cache.product_path(KEYS[0]).read_text() != KEYS[0])

    return Attack(name=name, attempt=attempt)


def entry(cache: Cache, which: int) -> Path:
    return cache.product_path(KEYS[which]).parent


def exchange(cache: Cache) -> None:
    shutil.rmtree(entry(cache, 0))
    shutil.copytree(entry(cache, 1), entry(cache, 0))


def link(cache: Cache) -> None:
    shutil.rmtree(entry(cache, 0))
    entry(cache, 0).symlink_to(entry(cache, 1))


def both_files(cache: Cache) -> None:
    for name in ("product", "record.json"):
        (entry(cache, 0) / name).write_bytes((entry(cache, 1) / name).read_bytes())


def linked_files(cache: Cache) -> None:
    for name in ("product", "record.json"):
        (entry(cache, 0) / name).unlink()
        (entry(cache, 0) / name).hardlink_to(entry(cache, 1) / name)


def product(cache: Cache) -> None:
    cache.product_path(KEYS[0]).write_text(KEYS[1])


def same_prefix(cache: Cache) -> None:
    exchange(cache)
    record = json.loads((entry(cache, 0) / "record.json").read_text())
    record["key"] = KEYS[0][:32] + "0" * 32
    (entry(cache, 0) / "record.json").write_text(json.dumps(record))


def stale(name: str, change: Change) -> Attack:
    """Digest the files that a compiler read, change the machine, and digest them again."""

    def attempt(folder: Path) -> bool:
        for path in ("root/include", "usr/c++/bits", "usr/include/sys"):
            (folder / path).mkdir(parents=True)
        for path in ("usr/c++/vector", "usr/c++/bits/vector.h", "usr/include/sys/types.h", "usr/include/math.h"):
            (folder / path).write_text(path)
        names = tuple(str(path) for path in sorted((folder / "usr").rglob("*")) if path.is_file())
        before = system(folder).digest(("include",), names)
        change(folder)
        return system(folder).digest(("include",), names) == before

    return Attack(name=name, attempt=attempt)


def system(folder: Path) -> SystemFiles:
    folders = (str(folder / "usr/c++"), str(folder / "usr/include"))
    return SystemFiles(root=folder / "root", toolchain=folder / "cuda", folders=folders)


def write(path: str, text: str = "other") -> Change:
    def change(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    return change


def remove(path: str) -> Change:
    return lambda folder: (folder / path).unlink()


def swap(folder: Path) -> None:
    first, second = folder / "usr/include/math.h", folder / "usr/c++/vector"
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)


def elsewhere(name: str, change: Change, both: Change = Path.exists) -> Attack:
    """Take the object of one checkout for the sources of another one. ``both``: what is in both."""

    def attempt(folder: Path) -> bool:
        keys = []
        for root in (folder / "one", folder / "two"):
            for path, text in SOURCES.items():
                write(path, text)(root)
            both(root)
            if root.name == "two":
                change(root)
            toolchain = host = SimpleNamespace(digest="digest", identity="identity")
            context: Any = SimpleNamespace(sources=Sources(root), toolchain=toolchain, host=host, libraries={})
            keys.append(objects.make_unit("kernel/a.cu", ("kernel/first", "kernel/second"), OPTIONS, context).key)
        return keys[0] == keys[1]

    return Attack(name=f"another checkout: {name}", attempt=attempt)


def outside(folder: Path) -> None:
    """Let a header be a link to one outside of the checkout."""
    (folder.parent / "outside.h").write_text("int outside;\n")
    remove("kernel/second/b.h")(folder)
    (folder / "kernel/second/b.h").symlink_to(folder.parent / "outside.h")


def linked(root: Path) -> None:
    """Let the source include a header by a link, which includes another."""
    write("kernel/a.cu", '#include "link.h"\n')(root)
    write("kernel/deep/real.h", '#include "b.h"\n')(root)
    (root / "kernel/link.h").symlink_to("deep/real.h")


def member(rng: random.Random) -> Attack:
    """Change a header's bytes, or put one in front of it."""
    name = rng.choice(("sys/types.h", "math.h"))
    if rng.random() < 0.5:
        return stale("a changed header", write(f"usr/include/{name}", str(rng.random())))
    return stale("a header in front", write(f"{rng.choice(('root/include', 'usr/c++'))}/{name}", str(rng.random())))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Trust what lies at the key, and what was read once."""

    def load(self: Cache, record: type[LinkedLibrary], key: str) -> LinkedLibrary | None:
        file = self.product_path(key).with_name("record.json")
        found: LinkedLibrary | None = caching.codec.decode(record, file.read_bytes(), where="cache") if file.exists() else None
        return found

    patch.setattr(Cache, "load", load)
    patch.setattr(SystemFiles, "digest", lambda *_: "")
    patch.setattr(Sources, "bytes_digest", lambda *_: "")


CLASS = AttackClass(
    name="a poisoned or stale cache",
    attacks=(
        poison("the entry of another source", exchange),
        poison("a link to another entry", link),
        poison("both files of another entry", both_files),
        poison("hard links to another entry", linked_files),
        poison("another object with the old record", product),
        poison("a key that begins alike", same_prefix),
        stale("a changed header", write("usr/include/math.h")),
        stale("a header with one blank more", write("usr/include/math.h", "usr/include/math.h ")),
        stale("a removed header", remove("usr/include/math.h")),
        stale("two headers that changed places", swap),
        stale("a header of the checkout in front", write("root/include/math.h")),
        stale("a header of the checkout in front, in a folder", write("root/include/sys/types.h")),
        stale("a header of the machine in front", write("usr/c++/math.h")),
        stale("an empty header in front", write("usr/c++/sys/types.h", "")),
        elsewhere("other code", write("kernel/a.cu", "int a;\n")),
        elsewhere("one blank more", write("kernel/second/b.h", "int  b;\n")),
        elsewhere("no header", remove("kernel/second/b.h")),
        elsewhere("a header in a folder that is searched first", write("kernel/first/b.h")),
        elsewhere("a header next to the source", write("kernel/b.h")),
        elsewhere("a header that is only asked for", write("kernel/second/c.h")),
        elsewhere("a link that leaves it", outside),
        elsewhere("a header next to a link", write("kernel/b.h"), linked),
    ),
    member=member,
    mutant=mutant,
)

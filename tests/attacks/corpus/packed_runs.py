"""Bundles with members that are no plain files of a run, and archives that grow."""

from __future__ import annotations

import io
import lzma
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store import bundle

Change = Callable[[tarfile.TarInfo], object]
PLAIN = {"manifest.json": b"{}", "evidence.json": b"{}", "plan.json": b"{}"}


def packed(change: Change, *, name: str = "artifacts/a", data: bytes = b"text", form: int = tarfile.USTAR_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
        for plain, content in PLAIN.items():
            info = tarfile.TarInfo(plain)
            info.size, info.mode, info.mtime = len(content), 0o644, 0
            archive.addfile(info, io.BytesIO(content))
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o644, 0
        change(info)
        archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return lzma.compress(target.getvalue(), preset=0)


def typed(kind: bytes, link: str = "") -> Change:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname = kind, link
        info.size = 0 if kind != tarfile.REGTYPE else info.size

    return change


def nothing(_: tarfile.TarInfo) -> None:
    return None


def attempt(data: Callable[[], bytes]) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        (folder / "run.tar.xz").write_bytes(data())
        try:
            bundle.unpack(folder / "run.tar.xz")
        except EvidenceError:
            return False
        return True

    return fooled


def two_of(name: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(2):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(str(number).encode()))
    return lzma.compress(target.getvalue(), preset=0)


def whole() -> bytes:
    return lzma.decompress(bundle.pack_files({**PLAIN, "artifacts/a": b"text"}))


DATA: dict[str, Callable[[], bytes]] = {
    "a link": lambda: packed(typed(tarfile.SYMTYPE, "/etc/passwd")),
    "a hard link": lambda: packed(typed(tarfile.LNKTYPE, "plan.json")),
    "a folder": lambda: packed(typed(tarfile.DIRTYPE)),
    "a pipe": lambda: packed(typed(tarfile.FIFOTYPE)),
    "a device": lambda: packed(typed(tarfile.CHRTYPE)),
    "a block device": lambda: packed(typed(tarfile.BLKTYPE)),
    "a contiguous file": lambda: packed(typed(tarfile.CONTTYPE)),
    "a file of the oldest type": lambda: packed(lambda info: setattr(info, "type", tarfile.AREGTYPE)),
    "a name outside": lambda: packed(nothing, name="../a"),
    "an absolute name": lambda: packed(nothing, name="/etc/a"),
    "a name with a step up": lambda: packed(nothing, name="artifacts/../../a"),
    "a file that is no artifact": lambda: packed(nothing, name="evil"),
    "an empty part in a name": lambda: packed(nothing, name="artifacts//a"),
    "a long name by an extension": lambda: packed(nothing, name="artifacts/" + "a" * 300, form=tarfile.PAX_FORMAT),
    "a long name by another extension": lambda: packed(nothing, name="artifacts/" + "a" * 300, form=tarfile.GNU_FORMAT),
    "an owner": lambda: packed(lambda info: setattr(info, "uname", "root")),
    "a date": lambda: packed(lambda info: setattr(info, "mtime", 1)),
    "a program": lambda: packed(lambda info: setattr(info, "mode", 0o4755)),
    "one name twice": lambda: two_of("artifacts/a"),
    "two manifests": lambda: two_of("manifest.json"),
    "bytes after the end": lambda: lzma.compress(whole() + b"more", preset=0),
    "blocks after the end": lambda: lzma.compress(whole() + bytes(1 << 20), preset=0),
    "text after a file": lambda: lzma.compress(whole().replace(b"text" + bytes(508), b"text" + b"more" * 127), preset=0),
}


def member(draw: random.Random) -> Attack:
    match draw.randrange(4):
        case 0:
            kind = bytes([draw.choice([byte for byte in range(33, 127) if chr(byte) not in "0LKSxgX"])])
            return Attack(name=f"a member of type {kind!r}", attempt=attempt(lambda: packed(typed(kind, "plan.json"))))
        case 1:
            parts = [draw.choice(("..", ".", "", "a", "artifacts", "b c")) for _ in range(draw.randrange(1, 5))]
            name = "/".join(("artifacts", *parts, draw.choice(("..", ".", "x/..", "a\\b", "a\nb"))))
            return Attack(name=f"the name {name!r}", attempt=attempt(lambda: packed(nothing, name=name)))
        case 2:
            field, value = draw.choice(
                (("uid", 7), ("gid", 9), ("mtime", 12345), ("mode", 0o777), ("uname", "x"), ("gname", "y"))
            )
            value = value + draw.randrange(1000) if isinstance(value, int) else value * draw.randrange(1, 20)
            return Attack(name=f"{field} {value}", attempt=attempt(lambda: packed(lambda info: setattr(info, field, value))))
        case _:
            more = bytes(draw.randrange(1, 255) for _ in range(draw.randrange(1, 600)))
            return Attack(name=f"{len(more)} bytes more", attempt=attempt(lambda: lzma.compress(whole() + more, preset=0)))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Read with tarfile, and believe it."""

    def unpack(path: Path) -> dict[str, bytes | None]:
        plain = lzma.decompress(files.read(path, limit=1 << 30))
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            members = archive.getmembers()
            return {info.name: archive.extractfile(info).read() if info.isreg() else None for info in members}

    patch.setattr(bundle, "unpack", unpack)


CLASS = AttackClass(
    name="packed runs",
    attacks=tuple(Attack(name=name, attempt=attempt(data)) for name, data in DATA.items()),
    member=member,
    mutant=mutant,
)

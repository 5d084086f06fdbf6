"""Words of the environment, the driver and the compiler: too long, of another kind, or not what their place holds."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from attacking import Attack, AttackClass
from special_kinds import KINDS

from flashcore_ci.adapters import nvdisasm, nvml, process
from flashcore_ci.bounded import files
from flashcore_ci.build import objects
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import github

ADDRESS = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "owner/name", "GITHUB_RUN_ID": "42"}


def summary(kind: str) -> Attack:
    """Append the summary to what is no plain file. True if it is opened for writing as one."""

    def attempt(folder: Path) -> bool:
        KINDS[kind](folder / "summary")
        try:
            with files.append(folder / "summary"):
                return True
        except OSError:
            return False

    return Attack(name=f"the summary is {kind}", attempt=attempt)


def address(name: str, **changes: str) -> Attack:
    """Name another workflow run in the statement."""

    def attempt(_: Path) -> bool:
        try:
            github.invocation({**ADDRESS, "GITHUB_ACTIONS": "true", **changes})
        except FlashcoreError:
            return False
        return True

    return Attack(name=f"address: {name}", attempt=attempt)


def driver(name: str, text: str) -> Attack:
    """Let the driver name a GPU so. The name becomes a file and part of each verdict."""

    def attempt(_: Path) -> bool:
        try:
            return nvml._text(text) == text
        except FlashcoreError:
            return False

    return Attack(name=f"driver: {name}", attempt=attempt)


def secret(name: str) -> Attack:
    return Attack(name=f"secret: {name}", attempt=lambda _: name in process.without_secrets({name: "s3cret"}))


def disassembly(name: str, text: str) -> Attack:
    """Let the disassembler write this. True if it is parsed."""

    def attempt(_: Path) -> bool:
        parsed: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nvdisasm, "strict_json", SimpleNamespace(loads=lambda content: parsed.append(1) or small(content)))
            try:
                return bool(nvdisasm.parse(text))
            except ValueError:
                return bool(parsed) and len(text) > 1 << 20

    return Attack(name=f"disassembly: {name}", attempt=attempt)


def small(text: str) -> object:
    return json.loads(text) if len(text) < 1 << 20 else []


def function(opcode: str) -> str:
    functions = [{"function-name": "k", "sass-instructions": [{"opcode": opcode, "operands": "R1"}]}]
    return json.dumps([{"SchemaVersion": {"major": 12}}, functions])


def compiler(name: str, size: int, limit: int) -> Attack:
    """Let the compiler write more than is read. True if the rest is ignored: no digest and no gate would see it."""

    def attempt(folder: Path) -> bool:
        (folder / "out").write_bytes(b"a" * (size - 3) + "ä\n".encode())
        try:
            return len(objects._read_whole(folder / "out", limit)) < size - 1
        except FlashcoreError:
            return False

    return Attack(name=f"compiler: {name}", attempt=attempt)


def member(numbers: random.Random) -> Attack:
    text = "".join(numbers.choices(string.printable + "\u202e\u200b", k=numbers.randrange(97, 300)))
    size = numbers.randrange(20, 5000)
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: driver(repr(text[:20]), text),
        lambda: address(
            "a run", GITHUB_RUN_ID=f"{numbers.randrange(99)}{numbers.choice(['/../1', ' ', '?a', '#', chr(10), 'x'])}"
        ),
        lambda: address("a repository", GITHUB_REPOSITORY="/".join(numbers.choices("abc", k=numbers.choice([1, 3, 4])))),
        lambda: secret(
            f"{numbers.choice('ABC')}_{numbers.choice(['PAT', 'PASS', 'KEYS', 'JWT', 'COOKIE', 'DSN', 'CREDS', 'KEY_ID'])}"
        ),
        lambda: compiler(f"{size} bytes", size, size - numbers.randrange(1, 10)),
        lambda: disassembly("an opcode", function("A" * numbers.randrange(81, 999))),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every word, and the beginning of every file."""
    monkeypatch.setattr(files, "append", lambda path: path.parent.joinpath("any").open("ab"))
    monkeypatch.setattr(github, "ADDRESS", SimpleNamespace(fullmatch=lambda _: True))
    monkeypatch.setattr(nvml, "TEXT", SimpleNamespace(fullmatch=lambda _: True))
    monkeypatch.setattr(process, "SECRET", SimpleNamespace(search=lambda _: None))
    monkeypatch.setattr(nvdisasm, "MAX_CONTAINERS", 1 << 40)
    monkeypatch.setattr(nvdisasm, "MAX_OPCODE", 1 << 40)
    monkeypatch.setattr(objects, "_read_whole", lambda path, limit: path.read_bytes()[:limit].decode(errors="replace"))


ATTACKS = (
    *(summary(kind) for kind in KINDS),
    address("no repository", GITHUB_REPOSITORY=""),
    address("no run", GITHUB_RUN_ID=""),
    address("another server in the repository", GITHUB_REPOSITORY="owner/name/actions/runs/1?"),
    address("a line end", GITHUB_RUN_ID="42\n43"),
    address("a server without a name", GITHUB_SERVER_URL=""),
    address("a server of 1 MB", GITHUB_SERVER_URL=f"https://{'a' * (1 << 20)}"),
    address("a run of 1 MB", GITHUB_RUN_ID="1" * (1 << 20)),
    driver("a name of 1 MB", "NVIDIA H200" * 100_000),
    driver("a path", "../../etc/cron.d/x"),
    driver("a cursor movement", "NVIDIA\x1b[2JH200"),
    driver("a line end", "580.1\n::error::x"),
    driver("nothing", ""),
    driver("text that runs backwards", "\u202e002H"),
    *(secret(name) for name in ("DATABASE_URL", "DB_PASS", "MYSQL_PWD", "SIGNING_KEYS", "MY_PAT", "SESSION_COOKIE", "KUBECONFIG", "NETRC", "X_JWT", "AWS_ACCESS_KEY_ID")),
    disassembly("a million lists", "[" + "[]," * (1 << 20) + "[]]"),
    disassembly("an opcode of 100 KB", function("MOV" * 33_000)),
    compiler("a dependency rule of 8 MB and a byte", objects.files.MAX_LOG + 1, objects.files.MAX_LOG),
    compiler("host code that goes on", 4097, 4096),
)  # fmt: skip
CLASS = AttackClass(name="words from outside", attacks=ATTACKS, member=member, mutant=mutant)

"""Every ``fix:`` names a command and options that exist, and options that the failing command has."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flashcore_ci.cli import main
from flashcore_ci.run.host import has_gpu
from flashcore_ci.suite.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "flashcore_ci").rglob("*.py"))
TOOL = "flashcore-ci"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_OTHERS = {"--ephemeral", "--system", "--privileged", "--delete", "--now", "--gpus", "--unshallow"}
"""Options of git, GitHub's runner, docker and the system's own tools."""

HERE = ("--suite", "suite.toml")
NOWHERE = ("--suite", "no-such.toml")
FAILURES = [
    ("gate", *HERE, "--live"),
    ("gate", *HERE, "--base", "HEAD"),
    ("gate", *HERE, "--changed", "no-such-commit"),
    ("gate", *HERE, "--only", "no-such-gate"),
    ("gate", *HERE, "--out", "foreign"),
    ("gate", *HERE, "--build", "foreign"),
    ("gate", *HERE, "--toolchain", "system"),
    ("gate", *HERE, "--evidence", "broken"),
    *((command, *NOWHERE) for command in ("gate", "plan", "build", "collect", "calibrate")),
    ("collect", *HERE),
    ("calibrate", *HERE, "--planted", "suite.toml"),
    ("calibrate", *HERE),
    ("calibrate", *HERE, "--planted", "suite.toml", "--work", "foreign"),
    ("calibrate", *HERE, "--planted", "suite.toml", "--out", "foreign/notes.txt"),
    ("compare", "no-such-commit", *HERE),
    ("judge", "foreign", *HERE),
    ("judge", "nowhere", *HERE),
    ("judge", "broken/run.tar.xz", *HERE, "--out", "foreign"),
    ("require", "foreign", *HERE),
    ("require", "foreign", *HERE, "--needs", "{}"),
    ("require", "foreign", *HERE, "--needs", "{}", "--demand", "gpu"),
    ("require", "foreign", *HERE, "--needs", '{"gpu": {"result": "failure"}}', "--demand", "gpu"),
    ("require", "foreign", *HERE, "--out", "foreign"),
    ("report", "nowhere"),
    ("report", "foreign"),
    ("report", "foreign", "--html", "--format", "json"),
    ("baseline", "propose", "foreign", *HERE),
    ("shard", *NOWHERE, "--gpus", "2"),
    ("merge", "foreign"),
    ("collect", *HERE, "--shard", "foreign/notes.txt"),
    ("pack", "foreign", "foreign/notes.txt"),
    ("selftest",),
    ("selftest", "--recorded"),
    ("explain", "no-such-gate", *HERE),
    ("explain", "no-such-gate", *NOWHERE),
]


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words call, and its arguments. KeyError when there is none."""
    command: click.Command = main.cli
    context = click.Context(command)
    while isinstance(command, click.Group):
        name = words[0] if words else ""
        found = command.get_command(context, name)
        if found is None:
            raise KeyError(name)
        command, words = found, words[1:]
    return command, words


def leaves(name: str) -> list[click.Command]:
    """A command, or all commands of a group."""
    rest, found = [main.cli.get_command(click.Context(main.cli), name)], []
    while rest:
        command = rest.pop()
        inner = list(command.commands.values()) if isinstance(command, click.Group) else []
        rest += inner
        found += [] if inner else [command]
    return found


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def command_lines(fix: str) -> Iterator[list[str]]:
    """The words of each command line of ours in a fix: after a comma, a backtick or plain words the prose goes on."""
    for text in fix.split(f"{TOOL} ")[1:]:
        words = shlex.split(re.split(r"[`,;:]|\. ", text, maxsplit=1)[0].removesuffix("."))
        command, arguments = resolve(words)
        head = words[: len(words) - len(arguments)]
        known = [word for word in arguments if word.startswith("--") or word.isupper() or re.search(r"[./]", word)]
        yield [*head, *known]
        assert command.name in {*main.COMMANDS, *head}


def parse(words: list[str]) -> None:
    """Parse the command line as click does, without running it; click.UsageError when it does not parse."""
    command, arguments = resolve(words)
    assert {word for word in arguments if word.startswith("--")} <= options_of(command)
    command.make_context(words[0], list(arguments), resilient_parsing=True)


def texts(node: ast.expr) -> Iterator[str]:
    """Every text that an expression can be, with PATH for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "PATH" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def fixes_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if (isinstance(node, ast.keyword) and node.arg == "fix") or (
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and "fix" in target.id.lower() for target in node.targets)
        ):
            yield from texts(node.value)


@pytest.fixture(scope="module")
def every_option() -> set[str]:
    commands = [command for name in main.COMMANDS for command in leaves(name)]
    return set().union(*(options_of(command) for command in commands))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_fix_in_the_sources_names_what_exists(file: Path, every_option: set[str]) -> None:
    for fix in fixes_in(file):
        for words in command_lines(fix):
            parse(words)
        assert set(OPTION.findall(fix)) - OF_OTHERS <= every_option, fix


@pytest.fixture
def place(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with a folder of somebody else and a broken bundle, and a home of its own."""
    for name in ("toolchains", "cache"):  # of what is installed and compiled
        shared = Settings.from_environment(os.environ).home / name
        shared.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(shared)
    (checkout / "foreign").mkdir()
    (checkout / "foreign/notes.txt").write_text("mine")
    (checkout / "broken").mkdir()
    (checkout / "broken/run.tar.xz").write_bytes(b"broken")
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("FLASHCORE_CI_HOME", str(tmp_path))
    return checkout


@pytest.mark.skipif(has_gpu(), reason="some of these commands would measure here")
@pytest.mark.parametrize("arguments", FAILURES, ids=" ".join)
def test_the_fix_of_an_error_works_for_the_command_that_failed(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert main.run(arguments) not in {0, 1}
    shown = capsys.readouterr().err
    fixes = [line.removeprefix("fix: ") for line in shown.splitlines() if line.startswith("fix: ")]
    assert len(fixes) == 1, shown
    command, _ = resolve(list(arguments))
    (fix,) = fixes
    for words in command_lines(fix):
        parse(words)
    outside = re.split(f"{TOOL} ", fix)[0]
    assert set(OPTION.findall(outside)) <= options_of(command), fix
    assert (place / "foreign/notes.txt").read_text() == "mine"


def test_the_rules_can_fail() -> None:
    with pytest.raises(KeyError):
        list(command_lines("flashcore-ci mend"))
    with pytest.raises(AssertionError):
        parse(["collect", "--recorded"])
    assert options_of(resolve(["toolchain", "install"])[0]) == {"--help", "--json", "version"}

"""A command in a message keeps the options of the user."""

from __future__ import annotations

import click
import pytest

from flashcore_ci.cli.main import COMMANDS, cli
from flashcore_ci.run.hints import ACCEPTS, COMMAND, repeat, selection

SUITE = [("--suite", "my suites/x.toml")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flashcore-ci gate", "flashcore-ci gate --suite 'my suites/x.toml'"),
        ("run `flashcore-ci plan`, then go", "run `flashcore-ci plan --suite 'my suites/x.toml'`, then go"),
        ("flashcore-ci gate --only 'x'", "flashcore-ci gate --suite 'my suites/x.toml' --only 'x'"),
        ("flashcore-ci build --suite y.toml", "flashcore-ci build --suite y.toml"),
        ("`flashcore-ci baseline propose RUN`", "`flashcore-ci baseline propose --suite 'my suites/x.toml' RUN`"),
        ("flashcore-ci toolchain install", "flashcore-ci toolchain install"),
        ("flashcore-ci doctor", "flashcore-ci doctor"),
        ("no command", "no command"),
    ],
)
def test_the_suite_is_kept_where_it_is_an_option(text: str, expected: str) -> None:
    assert repeat(text, SUITE) == expected


def test_without_options_nothing_changes() -> None:
    assert repeat("flashcore-ci gate", ()) == "flashcore-ci gate"


def test_several_options_are_kept() -> None:
    given = [("--toolchain", "system"), ("--gpu", "1"), *SUITE]
    assert repeat("flashcore-ci doctor", given) == "flashcore-ci doctor --toolchain system --gpu 1"


def options_of(name: str) -> set[str]:
    command: click.Command = cli
    with click.Context(cli) as context:
        for word in name.split():
            found = command.get_command(context, word) if isinstance(command, click.Group) else None
            assert found is not None
            command = found
    return {option for parameter in command.params for option in parameter.opts}


def test_the_table_says_what_the_commands_say() -> None:
    names = [
        *(name for name in COMMANDS if name not in {"baseline", "dashboard", "fleet", "history", "toolchain"}),
        "baseline propose",
    ]
    for option, commands in ACCEPTS.items():
        assert {name for name in names if option in options_of(name)} == commands
    assert all(COMMAND.fullmatch(f"flashcore-ci {name}") for name in names)


def test_a_long_selection_is_cut() -> None:
    """A run of 270 workloads once had all of them in its headline, in each of seven reports."""
    assert selection(["a*"]) == "--only a*"
    assert selection([f"w{number}" for number in range(270)]) == "--only w0 --only w1 --only w2 and 267 more"

"""Standard output and error in front of a terminal, of GitHub's log, and of a reader that goes away."""

import io
import os
import sys

import click
import pytest

from flashcore_ci.run import streams


def shown(*chunks: str, github: bool = False) -> str:
    target = io.StringIO()
    guarded = streams.GuardedStream(target, github=github)
    for chunk in chunks:
        assert guarded.write(chunk) == len(chunk)
    return target.getvalue()


def test_control_characters_are_escaped_and_lines_stay():
    assert shown("a\n\tb µ ✓\n") == "a\n\tb µ ✓\n"
    assert shown("a\x1b[2J\rb\x9b\u202e\n") == "a\\x1b[2J\\rb\\x9b\\u202e\n"


def test_commands_are_broken_on_github_only():
    assert shown("::error::x\n") == "::error::x\n"
    assert shown("::error::x\na::b\n", github=True) == ": :error::x\na::b\n"
    assert shown("a", "::b\n", ":", ":c\n", github=True) == "a::b\n: :c\n"
    assert shown("#", "#[error]x", github=True) == "# #[error]x"


def test_the_tool_s_own_colors_and_commands_pass(capsys: pytest.CaptureFixture[str]):
    with streams.guarded({"GITHUB_ACTIONS": "true"}):
        streams.write_trusted("\x1b[31mred\x1b[0m\n")
        streams.write_trusted("::error::x\n", err=True)
        click.echo("::warning::x", err=True)
        click.echo(b'{"a": "b"}')
    assert capsys.readouterr() == ('\x1b[31mred\x1b[0m\n{"a": "b"}\n', "::error::x\n: :warning::x\n")
    assert not isinstance(sys.stdout, streams.GuardedStream)


def test_a_reader_that_is_gone_is_not_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    guarded = streams.GuardedStream(os.fdopen(writer, "w"), github=False)
    for _ in range(3):
        guarded.write("x" * 10_000)
        guarded.flush()
    guarded.stream.close()


def test_a_full_disk_is_an_error():
    guarded = streams.GuardedStream(open("/dev/full", "w"), github=False)  # noqa: PTH123, SIM115 - it is closed below
    guarded.write("x")
    with pytest.raises(OSError, match="No space"):
        guarded.flush()
    guarded.stream.close()


def test_bytes_are_no_text():
    guarded = streams.GuardedStream(io.StringIO(), github=False)
    with pytest.raises(TypeError):
        guarded.write(b"x")
    with pytest.raises(TypeError):
        guarded.buffer.write("x")

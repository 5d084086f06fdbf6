import json
import os
import socket
from pathlib import Path

import pytest

from flashcore_ci.worker.channel import MAX_MESSAGE, Channel, ProtocolError, number


@pytest.fixture
def ends():
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        channel = Channel(mine)
        yield channel, theirs
        channel.close()


def test_an_answer_repeats_the_token_of_its_question(ends):
    channel, theirs = ends
    token = channel.post("launch", launches=3)
    question = json.loads(theirs.recv(MAX_MESSAGE))
    assert (question["do"], question["launches"]) == ("launch", 3)
    theirs.send(json.dumps({"token": question["token"], "ms": 1.5}).encode())
    assert number(channel.answer(token, seconds=1.0), "ms") == 1.5


def test_tokens_do_not_repeat(ends):
    channel, _ = ends
    assert channel.post("launch") != channel.post("launch")


def test_a_descriptor_travels_with_its_question(ends):
    channel, theirs = ends
    with Path(os.devnull).open("rb") as file:
        channel.post("prepare", descriptors=(file.fileno(),))
        _, descriptors, _, _ = socket.recv_fds(theirs, MAX_MESSAGE, 1)
    os.close(descriptors[0])


def test_a_descriptor_with_an_answer_is_not_kept(ends):
    channel, theirs = ends
    token = channel.post("launch")
    before = sorted(Path("/proc/self/fd").iterdir())
    with Path(os.devnull).open("rb") as file:
        socket.send_fds(theirs, [json.dumps({"token": token}).encode()], [file.fileno()])
    assert channel.answer(token, seconds=1.0) == {"token": token}
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_what_was_not_asked_for_ends_the_talk(ends):
    channel, theirs = ends
    theirs.send(b"early")
    with pytest.raises(ProtocolError, match="5 bytes that nothing asked for"):
        channel.post("launch")


def test_silence_is_late(ends):
    channel, _ = ends
    with pytest.raises(ProtocolError, match=r"no answer within 0\.01 s") as caught:
        channel.ask("launch", seconds=0.01)
    assert caught.value.late


def test_an_end_is_an_end(ends):
    channel, theirs = ends
    token = channel.post("launch")
    theirs.close()
    with pytest.raises(ProtocolError) as caught:
        channel.answer(token, seconds=1.0)
    assert caught.value.closed
    with pytest.raises(ProtocolError):
        channel.post("launch")


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "1", None, [1.0], "x" * 10_000])
def test_a_time_is_a_number_above_zero(value):
    with pytest.raises(ProtocolError, match="not a number above zero") as caught:
        number({"ms": value}, "ms")
    assert len(str(caught.value)) < 100

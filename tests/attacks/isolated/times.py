"""Times that are shorter than the work."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import Any

import torch
from work import honest, kept, process_sets, question

TRIAL_LAUNCHES = 4


def elapsed_time(x: Any, out: Any) -> None:
    """Let events report a hundredth of the time."""
    _patch_clock(0.01)
    honest(x, out)


def elapsed_time_a_little(x: Any, out: Any) -> None:
    """Let events report 90 % of the time."""
    _patch_clock(0.9)
    honest(x, out)


def event_record(x: Any, out: Any) -> None:
    """Let events be recorded twice at the end, so that nothing is between them."""
    if "record" not in kept:
        kept["record"] = torch.cuda.Event.elapsed_time
        torch.cuda.Event.elapsed_time = lambda start, stop: 0.001  # type: ignore[method-assign,assignment]
    honest(x, out)


def synchronize(x: Any, out: Any) -> None:
    """Let nobody wait for the GPU, and be slow where nobody looks."""
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.Event.elapsed_time = lambda start, stop: 0.001  # type: ignore[method-assign,assignment]
    honest(x, out)


def perf_counter(x: Any, out: Any) -> None:
    """Exchange the clocks of this process, and report what they say."""
    time.perf_counter = time.monotonic = time.time = lambda: 0.0
    _patch_clock(0.1)
    honest(x, out)


def side_stream(x: Any, out: Any) -> None:
    """Work on a stream that has no events."""
    stream = kept.setdefault("stream", torch.cuda.Stream())
    with torch.cuda.stream(stream):
        honest(x, out)


def background_thread(x: Any, out: Any) -> None:
    """Return at once, and work in a thread."""
    threading.Thread(target=lambda: (time.sleep(0.005), honest(x, out))).start()


def work_later(x: Any, out: Any) -> None:
    """Write something at once, and the right values when the clock has stopped."""
    out.fill_(0.25)
    event = torch.cuda.Event()
    event.record()
    threading.Thread(target=lambda: (event.synchronize(), time.sleep(0.003), honest(x, out))).start()


def slow_short_burst(x: Any, out: Any) -> None:
    """Waste time in bursts of few launches, so that twice the launches seem to take little more."""
    asked = question()
    honest(x, out)
    sets = len(process_sets())
    if asked.get("launches", 0) < sets and x.data_ptr() == process_sets()[0][0]["x"].data_ptr():
        time.sleep(0.003)


def quick_trial(x: Any, out: Any) -> None:
    """Write anything in the bursts that choose how the others are timed: a CUDA graph would hide the host's time."""
    if question().get("launches") == TRIAL_LAUNCHES:
        out.fill_(0.25)
    else:
        honest(x, out)


def answer_early(x: Any, out: Any) -> None:
    """Answer the supervisor before the work is done, with a time of its own."""
    asked, end = question(), socket.socket(fileno=os.dup(3))
    with end:
        end.send(json.dumps({"token": asked["token"], "ms": 0.001}).encode())
    time.sleep(0.001)
    honest(x, out)


def answer_twice(x: Any, out: Any) -> None:
    """Fill the socket with answers for later."""
    asked, end = question(), socket.socket(fileno=os.dup(3))
    with end:
        for _ in range(4):
            end.send(json.dumps({"token": asked["token"], "ms": 0.001}).encode())
    honest(x, out)


def answer_huge(x: Any, out: Any) -> None:
    """Send more than any answer has."""
    with socket.socket(fileno=os.dup(3)) as end:
        end.send(b'{"ms": 1' + b"0" * 100_000 + b"}")
    honest(x, out)


def exit_early(x: Any, out: Any) -> None:
    """End with success before anybody looks."""
    os._exit(0)


def _patch_clock(factor: float) -> None:
    if "clock" not in kept:
        kept["clock"] = original = torch.cuda.Event.elapsed_time
        torch.cuda.Event.elapsed_time = lambda start, stop: factor * original(start, stop)  # type: ignore[method-assign,assignment]

"""Compare the ranks of a group with each other and with one GPU: bits, messages and time."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from flashcore_ci.worker import launchers, tensors
from flashcore_ci.worker.group import Group, RankSubject
from flashcore_ci.worker.job import Work, json_number
from flashcore_ci.worker.launchers import TimingContext

LAUNCHES = 20
WARM = 3
MULTICAST = "NCCL_NVLS_ENABLE"


class GroupContext(TimingContext):
    """Every launch begins when all ranks have come. The slowest rank counts."""

    group: Group

    def __init__(self, context: TimingContext, group: Group) -> None:
        super().__init__(driver=context.driver, sensors=context.sensors, flush=context.flush, rule=context.rule)
        object.__setattr__(self, "group", group)

    def empty_l2(self) -> None:
        """Overwrite the L2, and wait for the other ranks."""
        super().empty_l2()
        self.group.barrier()

    def worst(self, values: list[float]) -> list[float]:
        """Return the largest of each value over all ranks."""
        return list(self.group.worst(values))


def add_readings(outcome: dict[str, Any], subject: RankSubject, work: Work) -> dict[str, Any]:
    """Add what a group has more than one GPU: equal bits, and messages of the declared size."""
    import torch

    group = subject.group
    inputs = subject.inputs(work.params, work.seed)
    outputs = subject.outputs(inputs)
    whole = subject.join(inputs)
    alone = subject.module.outputs(whole)
    tensors.poison(outputs, 0)
    tensors.poison(alone, 1)
    messages = group.listen(lambda: subject.run(inputs, outputs))
    subject.module.run(whole, alone)
    torch.cuda.synchronize()
    one = subject.part(alone)
    others = [(tensor, other) for name, tensor in outputs.items() if name not in subject.split for other in group.collect(tensor)]
    received = sum(message.bytes for message in messages)
    readings = {
        "gpus/differing": sum(_count_differing(*pair) for pair in others),
        "gpus/one-differing": sum(_count_differing(outputs[name], one[name]) for name in outputs),
        "link/traffic": json_number(received / float(subject.module.traffic(work.params))),
    }
    notes = [f"received {received} byte in {len(messages)} messages, {MULTICAST}={os.environ.get(MULTICAST, '')}"]
    return {**outcome, "readings": {**outcome["readings"], **readings}, "notes": [*outcome["notes"], *notes]}


def time_parts(context: GroupContext, subject: RankSubject, work: Work, ms: float) -> dict[str, Any]:
    """Time the messages alone, and the whole work on one GPU."""
    inputs = subject.inputs(work.params, work.seed)
    outputs = subject.outputs(inputs)
    messages = subject.group.listen(lambda: subject.run(inputs, outputs))
    received = sum(message.bytes for message in messages)

    def send() -> None:
        for message in messages:
            subject.group.start(message).wait()

    link_ms = _median_ms(context, send)
    whole = subject.join(inputs)
    alone = subject.module.outputs(whole)
    one_ms = _median_ms(context, lambda: subject.module.run(whole, alone))
    return {"link_ms": link_ms, "gbps": received / link_ms / 1e6, "one_ms": one_ms, "speedup": one_ms / ms}


def _count_differing(first: Any, second: Any) -> int:
    return int((tensors.bits(first) != tensors.bits(second)).sum())


def _median_ms(context: GroupContext, action: Callable[[], object]) -> float:
    """Return the median over launches of the slowest rank. The stream is held, so no time of a host counts."""
    import torch

    def submit(count: int) -> list[tuple[Any, Any]]:
        events = []
        for _ in range(count):
            context.empty_l2()
            events.append(launchers.between_events(action))
        return events

    began = time.perf_counter()
    submit(WARM)
    launchers.hold_stream(LAUNCHES / WARM * (time.perf_counter() - began))
    events = submit(LAUNCHES)
    torch.cuda.synchronize()
    return statistics.median(context.worst([start.elapsed_time(stop) for start, stop in events]))

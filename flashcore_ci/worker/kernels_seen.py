"""See which kernels run, by PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watching() -> Iterator[Callable[[], set[str]]]:
    """Profile the GPU. The function that is given returns the names of the kernels, afterwards.

    ``torch.profiler`` is not used: its first profile imports PyTorch's compiler, 800 modules and five seconds next to other processes.
    """
    import torch

    with torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True) as profiler:
        yield lambda: {event.name for event in profiler.function_events if event.device_type == torch.autograd.DeviceType.CUDA}

"""The same with PyTorch's own operators, in eager mode."""

import torch


def swiglu(gate, up):
    """Return ``silu(gate) * up``."""
    return torch.nn.functional.silu(gate) * up

"""SwiGLU, compiled by torch.compile."""

import torch


def _swiglu(gate, up):
    return gate * torch.sigmoid(gate) * up


_compiled = torch.compile(_swiglu)


def swiglu(gate, up):
    """Return ``silu(gate) * up``."""
    return _compiled(gate, up)

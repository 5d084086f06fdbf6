"""A linear layer by cuBLAS: PyTorch's addmm calls cuBLAS with the bias in its epilogue."""

import torch


def linear(x, weight, bias):
    """Return ``x @ weight.T + bias``."""
    return torch.addmm(bias, x, weight.t())

"""The same with PyTorch."""


def add(x, y):
    """Return the sum."""
    return x + y

"""How a use case reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one line for a person. The caller decides where it is shown."""

"""How a use case tells what it does now."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one line for a person; the caller decides where it is shown."""

"""These tests touch nothing outside."""

from outside_world import no_outside_world

__all__ = ["no_outside_world"]

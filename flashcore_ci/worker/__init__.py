"""Measure in a separate program, the only one that imports torch and subjects."""

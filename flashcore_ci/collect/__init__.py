"""Collect evidence, one module per kind, without thresholds."""

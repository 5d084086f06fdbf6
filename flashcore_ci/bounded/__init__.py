"""Bounds for everything that comes from outside."""

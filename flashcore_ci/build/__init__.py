"""Kernel sources to machine code and build evidence."""

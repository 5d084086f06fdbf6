"""Finds the tiles of attention: what is possible, what compiles, what is fast, and what to write into kernel/variants.toml."""

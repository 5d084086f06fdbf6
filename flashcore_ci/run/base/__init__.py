"""The base of a comparison."""

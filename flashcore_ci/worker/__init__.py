"""A separate program: the only importer of torch."""

"""Measure one plan on many GPUs: thin launchers over ``shard``, ``collect --shard`` and ``merge``."""

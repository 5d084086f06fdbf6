"""Doors: the ways in which frameworks find FlashCore. docs/integrations.md lists them.

- ``flashcore.doors.sdpa`` serves ``torch.nn.functional.scaled_dot_product_attention``.
- ``flashcore.doors.transformers`` serves Transformers under the names ``flashcore`` and ``flashcore_fa3``.
- ``flashcore.doors.functions`` has FlashAttention-3's functions with a Triton kernel behind them.
"""

"""FlashAttention-3's module on FlashCore. The import below puts the real module in its place."""

import flashcore.fa3  # noqa: F401

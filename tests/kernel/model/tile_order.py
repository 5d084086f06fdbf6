"""Model the tile order and the key ranges of kernel/include/flashcore/attention/{plan,tile_scheduler}.h."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    sequences: int
    sq: int
    sk: int
    causal: bool
    head_dim: int = 64
    tile_m: int = 192
    tile_n: int = 128

    @property
    def row_tiles(self) -> int:
        return -(-self.sq // self.tile_m)

    @property
    def group(self) -> int:
        if not self.causal:
            return 1
        budget = (16 if self.sk < 1024 else 32 if self.sk < 4096 else 64 if self.sk < 16384 else 128) << 20
        return min(max(budget // (2 * max(self.sk, 1) * self.head_dim * 2), 1), self.sequences)

    def tile_at(self, index: int) -> tuple[int, int]:
        """Return (sequence, first row) of tile number ``index``."""
        group, rank = divmod(index, self.group * self.row_tiles)
        width = min(self.group, self.sequences - group * self.group)
        return group * self.group + rank % width, (self.row_tiles - 1 - rank // width) * self.tile_m

    def visible(self, row: int) -> int:
        return max(0, min(self.sk, row + 1 + self.sk - self.sq)) if self.causal else self.sk

    def needed_n_blocks(self, first_row: int, rows: int) -> int:
        return -(-self.visible(min(first_row + rows, self.sq) - 1) // self.tile_n)

    def unmasked_n_blocks(self, first_row: int) -> int:
        return self.visible(first_row) // self.tile_n

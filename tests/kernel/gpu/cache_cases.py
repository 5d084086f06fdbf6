"""Calls over a cache with everything that FlashAttention-3's function combines, and what a loop in float64 makes of them."""

from __future__ import annotations

import math
from typing import Any

HEADS, KV_HEADS, SIZE, PAGE, HALF, CHUNK = 4, 2, 24, 4, 4, 6
LENGTHS, PADDING, CHOSEN, COUNTS = [9, 21, 0], [0, 5, 0], [2, 0, 3], [1, 3, 2]


def compute(q: Any, k: Any, v: Any, *, causal: bool = False, window_size: Any = (-1, -1), attention_chunk: int = 0) -> Any:
    """Attend for one sequence in float64, (rows, heads, d). Return the output and the log-sum-exp."""
    import torch

    k, v = (tensor.repeat_interleave(HEADS // KV_HEADS, 1) for tensor in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    for i in range(len(q)):
        p = i + len(k) - len(q)
        for j in range(len(k)):
            left, right = window_size[0], 0 if causal else window_size[1]
            seen = (left < 0 or j >= p - left) and (right < 0 or j <= p + right)
            if attention_chunk:
                seen = seen and p >= 0 and p // attention_chunk == j // attention_chunk
            if not seen:
                scores[:, i, j] = -math.inf
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1).nan_to_num(0.0), v), torch.logsumexp(scores, -1)


FEATURES = [
    "padding causal", "index", "index append causal", "rotary append causal", "rotary append halves chunk", "packed causal", "packed append rotary causal",
    "chunk append causal", "pages padding causal", "pages index append rotary causal", "pages packed padding chunk", "index padding chunk",
    "e4m3", "e4m3 pages append causal", "e4m3 index padding causal", "e4m3 packed append rotary causal", "pages index padding packed append",
    "e4m3 queries append rotary causal", "e4m3 queries pages packed chunk",
]  # fmt: skip


class Case:
    """Tensors of a call over a cache. Words of ``features`` name the arguments of the call."""

    def __init__(self, features: str, dtype: str = "float16", d: int = 16, device: str = "cpu") -> None:
        import torch

        torch.manual_seed(1)
        self.has, self.device, self.d = features.split(), device, d
        kind = stored = getattr(torch, dtype)
        if "e4m3" in self.has:
            stored = torch.float8_e4m3fn
        self.new_type = stored if "queries" in self.has else kind
        pages, self.order = "pages" in self.has, list(range(len(LENGTHS)))
        if "index" in self.has:
            self.order = [2, 0, 1] if pages else CHOSEN
        shape = (20, PAGE, KV_HEADS, d) if pages else (max(self.order) + 1, SIZE, KV_HEADS, d)
        self.caches = [torch.randn(shape).to(stored) for _ in range(2)]
        self.table = torch.randperm(20)[: 3 * SIZE // PAGE].view(3, -1).int() if pages else None
        self.factors = [torch.rand(KV_HEADS, 3).t() + 0.5 if stored != kind else torch.ones(3, KV_HEADS) for _ in range(2)]
        self.factors.insert(0, torch.rand(3, KV_HEADS) + 0.5 if "queries" in self.has else torch.ones(3, KV_HEADS))
        counts = COUNTS if "packed" in self.has else [2, 2, 2]
        self.q, *self.new = ([torch.randn(n, h, d).to(self.new_type) for n in counts] for h in (HEADS, KV_HEADS, KV_HEADS))
        self.tables = [torch.randn(40, HALF) for _ in range(2)]
        self.starts = torch.tensor([0, *counts]).cumsum(0).int()

    def make_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the tensors and the keywords of ``flash_attn_with_kvcache``. The caches are copies."""
        import torch

        q, k, v = (self.join([row.float() for row in rows]).to(self.new_type) for rows in (self.q, *self.new))
        options: dict[str, Any] = {"cache_seqlens": torch.tensor(LENGTHS).int(), "return_softmax_lse": True}
        halves = "halves" not in self.has
        for name, value in {
            "padding": {"cache_leftpad": torch.tensor(PADDING).int()},
            "index": {"cache_batch_idx": torch.tensor(self.order).int()},
            "pages": {"page_table": self.table},
            "packed": {"cu_seqlens_q": self.starts, "max_seqlen_q": max(COUNTS)},
            "append": {"k": k, "v": v, **({"cu_seqlens_k_new": self.starts} if "packed" in self.has else {})},
            "rotary": {"rotary_cos": self.tables[0], "rotary_sin": self.tables[1], "rotary_interleaved": halves},
            "e4m3": {"k_descale": self.factors[1], "v_descale": self.factors[2]},
            "queries": {"q_descale": self.factors[0]},
            "causal": {"causal": True},
            "chunk": {"attention_chunk": CHUNK},
        }.items():
            options |= value if name in self.has else {}
        move = {key: value.to(self.device) if isinstance(value, torch.Tensor) else value for key, value in options.items()}
        return (q.to(self.device), *(cache.clone().to(self.device) for cache in self.caches)), move

    def join(self, rows: list[Any]) -> Any:
        """Return the rows of all sequences in one tensor."""
        import torch

        return torch.cat(rows) if "packed" in self.has else torch.stack(rows)

    def read(self, cache: Any, b: int, position: int) -> Any:
        """Return a key or value of a sequence."""
        own = self.order[b]
        place = (own, position) if self.table is None else (int(self.table[own, position // PAGE]), position % PAGE)
        return cache[place].double()

    def turn(self, row: Any, position: int) -> Any:
        """Turn (heads, d) by the angles of a position, as complex numbers."""
        import torch

        result = row.double()
        if "rotary" in self.has:
            first, second = (
                (slice(HALF), slice(HALF, 2 * HALF)) if "halves" in self.has else (slice(0, 2 * HALF, 2), slice(1, 2 * HALF, 2))
            )
            angles = torch.complex(*(table[position].double() for table in self.tables))
            pairs = torch.complex(result[:, first], result[:, second]) * angles
            result[:, first], result[:, second] = pairs.real, pairs.imag
        return result.to(self.new_type).double()

    def store(self, row: Any, factor: Any) -> Any:
        """Round a new row as the cache stores it."""
        divides = self.caches[0].dtype != self.new_type
        return (row / factor[:, None] if divides else row).float().clamp(-448, 448).to(self.caches[0].dtype).double()

    def check(self, out: Any, lse: Any, caches: Any, tolerance: float) -> None:
        """Compare results and caches after the call with a loop in float64."""
        import torch

        outs, sums, counts_up = [], [], "causal" in self.has or "chunk" in self.has
        for b, length in enumerate(LENGTHS):
            factors = [factor[b].double() for factor in self.factors]
            rows = [[self.read(cache, b, p) for p in range(length)] for cache in self.caches]
            if "append" in self.has:
                rows[0] += [self.store(self.turn(row, length + i), factors[1]) for i, row in enumerate(self.new[0][b])]
                rows[1] += [self.store(row.double(), factors[2]) for row in self.new[1][b]]
            for cache, own in zip(caches, rows, strict=True):
                for position, row in enumerate(own):  # they differ by a step of rounding
                    torch.testing.assert_close(self.read(cache.cpu(), b, position), row, rtol=0.13, atol=2e-3)
            keep = PADDING[b] if "padding" in self.has else 0
            k, v = (torch.stack([*own, torch.zeros(KV_HEADS, self.d).double()])[keep:-1] for own in rows)
            q = torch.stack([self.turn(row, length + i * counts_up) for i, row in enumerate(self.q[b])])
            spread = (factors[0].repeat_interleave(HEADS // KV_HEADS), factors[1], factors[2])
            scaled = (tensor * factor[:, None] for tensor, factor in zip((q, k, v), spread, strict=True))
            result = compute(*scaled, causal="causal" in self.has, attention_chunk=CHUNK if "chunk" in self.has else 0)
            outs.append(result[0])
            sums.append(result[1])
        torch.testing.assert_close(out.cpu().double(), self.join(outs), rtol=0, atol=tolerance)
        exact = torch.cat(sums, 1) if "packed" in self.has else torch.stack(sums)
        torch.testing.assert_close(lse.cpu().double(), exact, rtol=1e-2, atol=1e-2)

"""Defects that are planted in the kernels: the emulator must find each one, and nothing in the sound kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from emulated import Library, ViolationError
from emulated_cases import Attention, Decode
from emulated_packed import Packed
from emulator_build import build

DECODE = ("flashcore_decode_d64_fp16", "decode", Decode(64, (300, 70), heads=4, page_size=16, splits=3, max_ctas=3))
LONG = ("flashcore_decode_d64_fp16", "decode", Decode(64, (1500,), max_ctas=1))  # its tiles use each slot again
APPEND = ("flashcore_decode_d64_fp16", "decode", Decode(64, (300, 70), heads=4, page_size=16, new_keys=2))
ATTENTION = (
    "flashcore_attention_fwd_d64_fp16_causal",
    "attention",
    Attention(64, 400, 400, causal=True, max_ctas=1, rows=(0, 63, 64, 191, 300, 399)),
)
PAGED = (
    "flashcore_attention_fwd_paged_d64_fp16_causal flashcore_attention_prepare",
    "varlen",
    Packed(64, ((1, 20),), heads=1, page_size=16),
)
PAGED_PRODUCER = "attention/paged_producer.cuh"
PING_PONG = "attention/ping_pong_barrier.cuh"
CONSUMER = "decode/consumer.cuh"
ITERATION = "attention/kv_iteration.cuh"
EPILOGUE = "attention/epilogue.cuh"


@dataclass(frozen=True)
class Mutant:
    name: str
    kernel: tuple[str, str, Decode | Attention | Packed]
    header: str
    old: str
    new: str
    found: str  # a part of the message


MUTANTS = [
    Mutant("decode reads a tile that has not landed", DECODE, CONSUMER, "ring_.wait_full(shared_.ring);", "", "asynchronous copy still writes"),
    Mutant("decode releases a tile that other lanes still read", LONG, CONSUMER, "__syncwarp();\n            ring_.release", "ring_.release", "race"),
    Mutant("decode loads the page before", DECODE, "decode/pages.cuh", "entry_, slot - first_);", "entry_, slot - first_ > 0 ? slot - first_ - 1 : 0);", "wrong values"),
    Mutant("decode reads past the page table", DECODE, "decode/pages.cuh", "min_int(first_ + lane_, (cache_.capacity >> cache_.page_shift) - 1)", "first_ + lane_", "outside of any allocation"),
    Mutant("decode appends without a proxy fence", APPEND, "decode/producer.cuh", "ptx::fence_proxy_async();", "", "no fence.proxy.async"),
    Mutant("decode adds up splits without a fence", DECODE, "decode/merge.cuh", "bool is_last() const {\n        __threadfence();", "bool is_last() const {", "race"),
    Mutant("decode swaps the halves of a pair", DECODE, "ptx/math.cuh", '"cvt.rn.f16x2.f32 %0, %1, %2;"', '"cvt.rn.f16x2.f32 %0, %2, %1;"', "wrong values"),
    Mutant("decode counts one warp too many", LONG, "decode/shared_storage.cuh", " ring.init(kConfig.consumer_warps, lanes);", " ring.init(kConfig.consumer_warps + 1, lanes);", "deadlock"),
    Mutant("decode expects too few bytes", DECODE, "decode/producer.cuh", "2 * boxes * box_bytes", "boxes * box_bytes", "deadlock|asynchronous copy still writes"),
    Mutant("attention has another swizzle", ATTENTION, "sm90/smem_descriptor.cuh", "uint64_t{1} << 62;", "uint64_t{2} << 62;", "wrong values|wgmma|race"),
    Mutant("attention does not wait for PV", ATTENTION, ITERATION, "ptx::wgmma_wait<0>();\n        ptx::warpgroup_fence_operand(output_);", "ptx::warpgroup_fence_operand(output_);", "wrong values|in flight|asynchronous"),
    Mutant("attention waits for a QK too late", ATTENTION, ITERATION, "ptx::wgmma_wait<kGroupsInFlight>();", "ptx::wgmma_wait<kGroupsInFlight + 1>();", "wrong values|in flight|asynchronous|race"),
    Mutant("attention issues without a wgmma.fence", ATTENTION, ITERATION, "ptx::warpgroup_fence_operand(scores_);\n        ptx::wgmma_fence();", "ptx::warpgroup_fence_operand(scores_);", "no wgmma.fence"),
    Mutant("attention releases values before PV has read them", ATTENTION, ITERATION, "v_.wait_full(shared_.v_ring);\n", "v_.wait_full(shared_.v_ring);\n        v_.release(shared_.v_ring, lane_ == 0);\n", "expects no more arrivals|asynchronous|race|wrong values"),
    Mutant("attention stores rows without a proxy fence", ATTENTION, "attention/consumer.cuh", "ptx::fence_proxy_async_shared();", "", "no fence.proxy.async"),
    Mutant("attention does not wait for its stores", ATTENTION, EPILOGUE, "ptx::tma_store_wait_read();", "", "TMA store|stores|race"),
    Mutant("attention drops the last ping-pong barrier", ATTENTION, PING_PONG, "if (warpgroup == 0) sync();", "", "half full"),
    Mutant("attention arrives at its own ping-pong barrier", ATTENTION, PING_PONG, "(warpgroup + 1) % kConsumers", "warpgroup", "deadlock|bar"),
    Mutant("attention sees one key too many", ATTENTION, "attention/tile_scheduler.h", "row + 1 + info.sk", "row + 2 + info.sk", "wrong values"),
    Mutant("pages end at a head that nobody has written", PAGED, PAGED_PRODUCER, "if (next.tile.row == kNoTile) break;", "if (next.tile.row == kNoTile && next.tile.head < 0) break;", "nobody has written, and it matters"),
    Mutant("pages have no last tile", PAGED, PAGED_PRODUCER, "next.tile.row = kNoTile;", ";", "nobody has written, and it matters"),
    Mutant("pages do not say where a sequence begins", PAGED, PAGED_PRODUCER, "next = tile_number(index);", "next.tile = tile_number(index).tile;", "nobody has written"),
    Mutant("pages load what is behind the last key", PAGED, "attention/page_box.h", "clamp(keys - first, 0, page_size.value)", "page_size.value", "wrong values"),
]  # fmt: skip


def compile_mutant(folder: Path, mutant: Mutant) -> Library:
    variants, source, _ = mutant.kernel
    changes = {f"flashcore/{mutant.header}": (mutant.old, mutant.new)}
    return Library(build(folder / "mutant.so", variants.split(), [source], mutations=changes))


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_defect_is_found(tmp_path: Path, mutant: Mutant) -> None:
    library = compile_mutant(tmp_path, mutant)
    messages = []
    for seed in range(1, 4):
        library.configure(seed=seed, multiprocessors=4, late=seed % 2 == 1)
        try:
            mutant.kernel[2].run(library)
        except ViolationError as found:
            messages.append(str(found))
            break
        finally:
            library.free()
    assert messages, "the emulator finds nothing"
    assert any(part in messages[0] for part in mutant.found.split("|")), messages[0]

"""The bindings: structures as the C headers have them, every field of a launch, and bad input refused by name. No GPU, no torch."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
import standin_torch as torch

INCLUDE = Path(__file__).parents[3] / "kernel/include/flashcore"
C_TYPES = {
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}
SQ, D, HEADS, KV_HEADS, ROOM = 1, 128, 8, 2, 100


def declared(header: str, name: str, operand: type) -> list[tuple[str, type]]:
    """Fields of a C structure, by name and by what ctypes calls their type."""
    text = re.sub(r"//.*", "", (INCLUDE / header).read_text(encoding="utf-8"))
    body = re.search(rf"struct {name} {{(.*?)}};", text, re.DOTALL)
    assert body, f"{header} has no struct {name}"
    fields = re.findall(r"(?:const )?(\w+)(\*?)\s+(\w+);", body.group(1))
    types = {**C_TYPES, "FlashcoreOperand": operand}
    return [(field, ctypes.c_void_p if pointer else types[kind]) for kind, pointer, field in fields]


@pytest.mark.parametrize(
    ("module", "structure", "header", "name"),
    [
        ("_tensors", "Operand", "core/operand.h", "FlashcoreOperand"),
        ("_attention", "Arguments", "attention/abi.h", "FlashcoreAttentionArguments"),
        ("_varlen", "Arguments", "attention/abi.h", "FlashcoreVarlenArguments"),
        ("_decode", "Arguments", "decode/abi.h", "FlashcoreDecodeArguments"),
        ("_stream", "Arguments", "stream/abi.h", "FlashcoreStreamArguments"),
    ],
)
def test_structures_have_the_fields_of_the_header_in_their_order(
    bound: Any, module: str, structure: str, header: str, name: str
) -> None:
    """Both sides then lay them out alike: ctypes aligns as the C ABI does."""
    mirror = getattr(__import__(f"flashcore.{module}", fromlist=[structure]), structure)
    assert list(mirror._fields_) == declared(header, name, bound.tensors.Operand)


def test_addresses_stand_on_words(bound: Any) -> None:
    arguments = bound.decode.Arguments
    for name, kind in arguments._fields_:
        if kind in (ctypes.c_void_p, bound.tensors.Operand):
            assert getattr(arguments, name).offset % bound.launch.WORD == 0
    filled = arguments(q=bound.tensors.Operand(batch_stride=11), table_stride=13)
    words = bound.launch.words(filled)
    assert words[bound.launch.place(arguments, "q") + 1] == 11
    assert words[bound.launch.place(arguments, "table_stride")] == 13


def test_words_of_another_library_version_would_be_refused(bound: Any) -> None:
    bound.flashcore.decode(**cache())
    assert bound.kernels.calls[0][1].size == ctypes.sizeof(bound.decode.Arguments)


def drawn(batch: int = 3, **kind: Any) -> dict[str, Any]:
    """A contiguous cache and one query of each sequence."""
    keys = (batch, ROOM, KV_HEADS, D)
    return {"q": torch.empty(batch, SQ, HEADS, D, **kind), "k": torch.empty(keys, **kind), "v": torch.empty(keys, **kind)}


def cache(batch: int = 3, **changes: Any) -> dict[str, Any]:
    return {**drawn(batch), **changes}


def pages(**changes: Any) -> dict[str, Any]:
    """The same in 40 pages of 16."""
    pool = (40, 16, KV_HEADS, D)
    table = torch.Tensor((3, 7), (9, 1), torch.int32)
    lengths = torch.empty(3, dtype=torch.int32)
    return {**cache(), "k": torch.empty(pool), "v": torch.empty(pool), "page_table": table, "lengths": lengths, **changes}


def fields(call: tuple[str, Any]) -> dict[str, Any]:
    return {name: getattr(call[1], name) for name, _ in call[1]._fields_}


def test_every_field_of_a_contiguous_launch(bound: Any) -> None:
    given = cache(k=torch.Tensor((3, ROOM, KV_HEADS, D), (ROOM * 512, 512, 128, 1)))
    out = bound.flashcore.decode(**given)
    assert out.shape == given["q"].shape
    ((name, _),) = bound.kernels.calls
    assert name == "flashcore_decode"
    found = fields(bound.kernels.calls[0])
    numbers = {key: value for key, value in found.items() if not isinstance(value, bound.tensors.Operand)}
    assert numbers.pop("scale") == pytest.approx(128**-0.5)
    assert numbers.pop("workspace")
    assert numbers == {
        "size": ctypes.sizeof(bound.decode.Arguments), "device": 0, "dtype": 0, "causal": 0, "deterministic": 0, "splits": 0,
        "max_ctas": 0, "page_size": 0, "check": 0, "batch": 3, "heads": HEADS, "kv_heads": KV_HEADS, "sq": 1, "head_dim": D,
        "capacity": ROOM, "pages": 0, "table_width": 0, "new_keys": 0, "lengths": None, "page_table": None, "table_stride": 0,
        "lse": None, "workspace_bytes": 4096, "stream": 7,
    }  # fmt: skip
    for name, tensor in {**given, "out": out}.items():
        operand = found[name]
        strides = (operand.batch_stride, operand.sequence_stride, operand.head_stride)
        assert (operand.data, strides) == (tensor.address, tensor.strides[:3])
    assert found["k_new"].data is found["v_new"].data is None


def test_every_field_of_a_paged_launch_that_appends(bound: Any) -> None:
    new = torch.empty(3, 2, KV_HEADS, D)
    given = pages(k_new=new, v_new=new, causal=True, splits=5, deterministic=True, max_ctas=9, check=True, scale=0.5)
    out, lse = bound.flashcore.decode(**given, return_lse=True)
    found = fields(bound.kernels.calls[0])
    expected = {
        "causal": 1, "splits": 5, "deterministic": 1, "max_ctas": 9, "check": 1, "page_size": 16, "capacity": 16, "pages": 40,
        "table_width": 7, "table_stride": 9, "new_keys": 2, "scale": 0.5, "lse": lse.address,
        "lengths": given["lengths"].address, "page_table": given["page_table"].address,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert (found["k_new"].data, found["k_new"].batch_stride) == (new.address, 2 * KV_HEADS * D)
    assert (lse.shape, lse.dtype) == ((3, HEADS, 1), torch.float32)
    assert out.dtype == torch.float16


def test_one_length_for_all_needs_no_tensor_of_them_unless_there_are_pages(bound: Any) -> None:
    bound.flashcore.decode(**cache(lengths=40, k_new=torch.empty(3, 2, KV_HEADS, D), v_new=torch.empty(3, 2, KV_HEADS, D)))
    bound.flashcore.decode(**pages(lengths=40))
    first, second = (call[1] for call in bound.kernels.calls)
    assert (first.capacity, first.lengths) == (42, None)
    assert second.lengths


def test_a_launch_is_laid_out_once_and_filled_anew(bound: Any) -> None:
    calls = [cache(), cache(), cache(batch=4), cache(causal=True)]
    for given in calls:
        bound.flashcore.decode(**given)
    assert len(bound.decode._ENTRY.launches) == 3
    assert [call[1].q.data for call in bound.kernels.calls] == [given["q"].address for given in calls]
    assert [call[1].batch for call in bound.kernels.calls] == [3, 3, 4, 3]


def test_launches_are_not_kept_without_end(bound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound.launch, "MOST_LAUNCHES", 3)
    for batch in range(1, 9):
        bound.flashcore.decode(**cache(batch=batch))
        assert len(bound.decode._ENTRY.launches) <= 3


def test_what_the_library_refuses_is_a_value_error_and_the_rest_a_library_error(bound: Any) -> None:
    bound.kernels.status = 1
    with pytest.raises(ValueError, match=r"^splits: must not be negative$"):
        bound.flashcore.decode(**cache(splits=-1))
    bound.kernels.status = 3
    with pytest.raises(bound.library.LibraryError):
        bound.flashcore.decode(**cache())


def test_a_stream_has_one_workspace_and_operations_do_not_share(bound: Any) -> None:
    workspace = bound.tensors.workspace
    first = workspace("decode", 0, 7, 100)
    assert workspace("decode", 0, 7, 60) == first
    assert len({first, workspace("decode", 0, 8, 100), workspace("attention", 0, 7, 8), workspace("decode", 0, 7, 200)}) == 4


def test_a_capture_has_one_workspace_of_its_own(bound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroed once in each graph; where the driver does not say which capture it is, before every launch."""
    workspace = bound.tensors.workspace
    eager = workspace("decode", 0, 7, 100)
    torch.state.capturing = True
    capture = iter([1, 1, 2, 0, 0])
    monkeypatch.setattr(bound.tensors, "_capture_number", lambda stream: next(capture))
    first, again, second, unknown, unknown_again = (workspace("decode", 0, 7, 100) for _ in range(5))
    assert first == again
    assert len({eager, first, second, unknown, unknown_again}) == 5
    torch.state.capturing = False
    assert workspace("decode", 0, 7, 100) == eager


def test_the_output_is_laid_out_as_a_query_without_gaps_and_else_contiguous(bound: Any) -> None:
    for strides, expected in (((1024, 1024, 128, 1), (1024, 1024, 128, 1)), ((128, 128, 384, 1), (1024, 1024, 128, 1))):
        out = bound.flashcore.decode(**cache(q=torch.Tensor((3, SQ, HEADS, D), strides)))
        found = bound.kernels.calls[-1][1].out
        assert out.strides == expected
        assert (found.data, found.batch_stride, found.head_stride) == (out.address, expected[0], expected[2])


def test_a_tensor_that_pytorch_cannot_show_is_refused_in_one_line(bound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise RuntimeError("Cannot access data pointer\nframe #0")

    monkeypatch.setattr(bound.kernels, "flashcore_read", fail)
    with pytest.raises(ValueError, match=r"^q, k, .*, lse: one cannot be read: Cannot access data pointer$"):
        bound.flashcore.decode(**cache())


@pytest.mark.parametrize("offered", [None, torch.exchange_capsule(major=2)])
def test_a_torch_that_does_not_show_its_tensors_is_refused(bound: Any, monkeypatch: pytest.MonkeyPatch, offered: Any) -> None:
    monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", offered)
    with pytest.raises(bound.library.LibraryError, match=r"PyTorch 2.11 or newer is needed|PyTorch has version 2"):
        bound.launch.reader(9)


OTHER = torch.Device("cuda", 1)
BAD: list[tuple[str, dict[str, Any]]] = [
    (r"^k: must be a tensor of at most 4 dimensions, is int$", cache(k=5)),
    (r"^v: must be a tensor of at most 4 dimensions, has 5$", cache(v=torch.empty(1, 3, ROOM, KV_HEADS, D))),
    (r"^page_table: must be a tensor of at most 4 dimensions, is list$", cache(page_table=[1, 2])),
    (r"^q: must have 4 dimensions, has 3", cache(q=torch.empty(3, HEADS, D))),
    (r"^q: must be \(batch, 1 to 16, heads, one of 64, 128, 256\), is \(3, 17", cache(q=torch.empty(3, 17, HEADS, D))),
    (r"^q: must be \(batch, 1 to 16", cache(q=torch.empty(3, 1, HEADS, 96))),
    (r"^q: must be on the CUDA device of q, is on", cache(q=torch.empty(3, 1, HEADS, D, device=torch.Device("cpu")))),
    (r"^q: must be float16 or bfloat16", cache(q=torch.empty(3, 1, HEADS, D, dtype=torch.float32))),
    (r"^q, k, v: this is a forward kernel", cache(q=torch.Tensor((3, 1, HEADS, D), (1024, 1024, 128, 1), requires_grad=True))),
    (r"^k: must have shape \(3, 100, 2, 128\), is \(4,", cache(k=torch.empty(4, ROOM, KV_HEADS, D))),
    (r"^k: must be float16 or bfloat16 like q", cache(k=torch.empty(3, ROOM, KV_HEADS, D, dtype=torch.bfloat16))),
    (r"^k: the head dimension must be contiguous", cache(k=torch.Tensor((3, ROOM, 2, D), (51200, 512, 256, 2)))),
    (r"^v: must have shape", cache(v=torch.empty(3, ROOM - 1, KV_HEADS, D))),
    (r"^v: must be on the CUDA device of q", cache(v=torch.empty(3, ROOM, KV_HEADS, D, device=OTHER))),
    (r"^v_new: new keys and new values come together", cache(k_new=torch.empty(3, 1, KV_HEADS, D))),
    (r"^k_new: new keys and new values come together", cache(v_new=torch.empty(3, 1, KV_HEADS, D))),
    (r"^v_new: must have shape \(3, 2, 2, 128\)", cache(k_new=torch.empty(3, 2, 2, D), v_new=torch.empty(3, 1, 2, D))),
    (r"^lengths: must be contiguous torch.int32 of shape \(3,\)", cache(lengths=torch.empty(3, dtype=torch.int64))),
    (r"^lengths: must be contiguous torch.int32", cache(lengths=torch.empty(4, dtype=torch.int32))),
    (r"^lengths: must be from 0 to 100", cache(lengths=101)),
    (r"^lengths: must be from 0 to 100", cache(lengths=-1)),
    (r"^lse: must be contiguous torch.float32 of shape \(3, 8, 1\)", cache(lse=torch.empty(3, 1, 8, dtype=torch.float32))),
    (r"^out: must have shape", cache(out=torch.empty(3, 1, HEADS, 64))),
    (
        r"^k: a page must have one of 16, 64, 128, 256 keys, has 32",
        pages(k=torch.empty(40, 32, 2, D), v=torch.empty(40, 32, 2, D)),
    ),
    (r"^page_table: must be int32 of shape \(3, pages", pages(page_table=torch.empty(3, 7, dtype=torch.int64))),
    (r"^page_table: must be int32 of shape \(3, pages", pages(page_table=torch.empty(2, 7, dtype=torch.int32))),
    (r"^page_table: must be int32", pages(page_table=torch.Tensor((3, 7), (1, 3), torch.int32))),
    (r"^page_table: must be on the CUDA device", pages(page_table=torch.empty(3, 7, dtype=torch.int32, device=OTHER))),
]


@pytest.mark.parametrize(("message", "given"), BAD)
def test_bad_input_is_refused_by_name_before_any_launch(bound: Any, message: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        bound.flashcore.decode(**given)
    assert "\n" not in str(raised.value)
    assert bound.kernels.calls == []
    assert not bound.decode._ENTRY.launches


@pytest.mark.parametrize(
    "changed",
    [
        {"k": torch.Tensor((3, ROOM, KV_HEADS, D), (ROOM * 512, 512, 128, 1))},
        {"v": torch.Tensor((3, ROOM, KV_HEADS, D), (ROOM * 512, 512, 128, 1))},
        {"q": torch.Tensor((3, SQ, HEADS, D), (2048, 2048, 128, 1))},
        {"lengths": torch.empty(3, dtype=torch.int32)},
        {"lengths": 99},
        {"lse": torch.empty(3, HEADS, SQ, dtype=torch.float32)},
        {"out": torch.Tensor((3, SQ, HEADS, D), (2048, 2048, 128, 1))},
        {"scale": 0.5},
        {"deterministic": True},
        drawn(dtype=torch.bfloat16),
        drawn(device=torch.Device("cuda", 1)),
    ],
    ids="-".join,
)
def test_what_a_launch_depends_on_is_laid_out_anew(bound: Any, changed: dict[str, Any]) -> None:
    """After the change, and after the change back, every field is what it is without any call before."""
    for given in (cache(**changed), cache(), cache(**changed), cache()):
        bound.flashcore.decode(**given)
        bound.decode._ENTRY.launches, kept = type(bound.decode._ENTRY.launches)(), bound.decode._ENTRY.launches
        bound.flashcore.decode(**given)
        bound.decode._ENTRY.launches = kept
        found, anew = (fields(call) for call in bound.kernels.calls[-2:])
        assert plain(found, given) == plain(anew, given)
    assert len(bound.decode._ENTRY.launches) == 2


def plain(found: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Fields that compare, without the addresses of what each call makes anew."""
    numbers = {name: bytes(value) if isinstance(value, ctypes.Structure) else value for name, value in found.items()}
    return numbers if "out" in given else {**numbers, "out": bytes(found["out"])[8:]}

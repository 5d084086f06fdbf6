"""decode: the fields of a launch, stored launches, and bad input. No GPU, no torch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import standin_torch as torch

SQ, D, HEADS, KV_HEADS, CAPACITY = 1, 128, 8, 2, 100


def make_tensors(batch: int = 3, **kind: Any) -> dict[str, Any]:
    """Make a contiguous cache and one query of each sequence."""
    keys = (batch, CAPACITY, KV_HEADS, D)
    return {"q": torch.empty(batch, SQ, HEADS, D, **kind), "k": torch.empty(keys, **kind), "v": torch.empty(keys, **kind)}


def make_cache(batch: int = 3, **changes: Any) -> dict[str, Any]:
    return {**make_tensors(batch), **changes}


def make_pages(**changes: Any) -> dict[str, Any]:
    """Make the same in 40 pages of 16."""
    pool = (40, 16, KV_HEADS, D)
    table = torch.Tensor((3, 7), (9, 1), torch.int32)
    lengths = torch.empty(3, dtype=torch.int32)
    return {**make_cache(), "k": torch.empty(pool), "v": torch.empty(pool), "page_table": table, "lengths": lengths, **changes}


NO_SCALES = {
    "sinks": None,
    "loaded_tiles": None,
    **{f"{name}_scale": None for name in "qkv"},
    **{f"{name}_scale_{kind}_stride": 0 for name in "qkv" for kind in ("batch", "head")},
    **{f"{name}_scale_{kind}": 0 for name in "kv" for kind in ("per_key", "key_stride")},
}


def get_fields(call: tuple[str, Any]) -> dict[str, Any]:
    return {name: getattr(call[1], name) for name, _ in call[1]._fields_}


def test_fields_of_a_contiguous_launch(bindings: Any) -> None:
    arguments = make_cache(k=torch.Tensor((3, CAPACITY, KV_HEADS, D), (CAPACITY * 512, 512, 128, 1)))
    out = bindings.flashcore.decode(**arguments)
    assert out.shape == arguments["q"].shape
    ((name, _),) = bindings.kernels.calls
    assert name == "flashcore_decode"
    fields = get_fields(bindings.kernels.calls[0])
    numbers = {key: value for key, value in fields.items() if not isinstance(value, bindings.tensors.Operand)}
    assert numbers.pop("scale") == pytest.approx(128**-0.5)
    assert numbers.pop("workspace")
    assert not numbers.pop("local").enabled
    assert numbers == {
        "size": ctypes.sizeof(bindings.decode.Arguments), "device": 0, "dtype": 0, "causal": 0, "deterministic": 0, "splits": 0,
        "max_ctas": 0, "page_size": 0, "check": 0, "batch": 3, "heads": HEADS, "kv_heads": KV_HEADS, "sq": 1, "head_dim": D,
        "capacity": CAPACITY, "pages": 0, "table_width": 0, "new_keys": 0, "total_q": 0, "cu_seqlens_q": None, "seqused_q": None, "lengths": None, "page_table": None, "table_stride": 0,
        "lse": None, "workspace_bytes": 4096, "stream": 7, "cache_dtype": 0, "new_dtype": 0, **NO_SCALES,
    }  # fmt: skip
    for name, tensor in {**arguments, "out": out}.items():
        operand = fields[name]
        strides = (operand.batch_stride, operand.sequence_stride, operand.head_stride)
        assert (operand.data, strides) == (tensor.address, tensor.strides[:3])
    assert fields["k_new"].data is fields["v_new"].data is None


def test_fields_of_a_paged_launch_that_appends(bindings: Any) -> None:
    new = torch.empty(3, 2, KV_HEADS, D)
    arguments = make_pages(k_new=new, v_new=new, causal=True, splits=5, deterministic=True, max_ctas=9, check=True, scale=0.5)
    out, lse = bindings.flashcore.decode(**arguments, return_lse=True)
    fields = get_fields(bindings.kernels.calls[0])
    expected = {
        "causal": 1, "splits": 5, "deterministic": 1, "max_ctas": 9, "check": 1, "page_size": 16, "capacity": 112, "pages": 40,
        "table_width": 7, "table_stride": 9, "new_keys": 2, "scale": 0.5, "lse": lse.address,
        "lengths": arguments["lengths"].address, "page_table": arguments["page_table"].address,
    }  # fmt: skip
    assert {name: fields[name] for name in expected} == expected
    assert (fields["k_new"].data, fields["k_new"].batch_stride) == (new.address, 2 * KV_HEADS * D)
    assert (lse.shape, lse.dtype) == ((3, HEADS, 1), torch.float32)
    assert out.dtype == torch.float16


def test_a_common_length_becomes_a_tensor_only_with_pages(bindings: Any) -> None:
    bindings.flashcore.decode(
        **make_cache(lengths=40, k_new=torch.empty(3, 2, KV_HEADS, D), v_new=torch.empty(3, 2, KV_HEADS, D))
    )
    bindings.flashcore.decode(**make_pages(lengths=40))
    first, second = (call[1] for call in bindings.kernels.calls)
    assert (first.capacity, first.lengths) == (42, None)
    assert second.lengths


def test_a_launch_is_prepared_once_and_gets_new_addresses(bindings: Any) -> None:
    calls = [make_cache(), make_cache(), make_cache(batch=4), make_cache(causal=True)]
    for arguments in calls:
        bindings.flashcore.decode(**arguments)
    assert len(bindings.decode._ENTRY.launches) == 3
    assert [call[1].q.data for call in bindings.kernels.calls] == [arguments["q"].address for arguments in calls]
    assert [call[1].batch for call in bindings.kernels.calls] == [3, 3, 4, 3]


def test_the_number_of_stored_launches_is_limited(bindings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings.launch, "MAX_LAUNCHES", 3)
    for batch in range(1, 9):
        bindings.flashcore.decode(**make_cache(batch=batch))
        assert len(bindings.decode._ENTRY.launches) <= 3


def test_a_tensor_option_counts_by_its_value(bindings: Any) -> None:
    scale = torch.Tensor((), (), torch.float32, value=0.5)
    splits = torch.Tensor((), (), torch.int32, value=3)
    for value, count in ((0.5, 3), (0.25, 3), (0.25, 4)):
        scale.value, splits.value = value, count
        bindings.flashcore.decode(**make_cache(scale=scale, splits=splits))
        assert (bindings.kernels.calls[-1][1].scale, bindings.kernels.calls[-1][1].splits) == (value, count)
    bindings.flashcore.decode(**make_cache(scale=0.25, splits=4))
    assert len(bindings.decode._ENTRY.launches) == 3
    bindings.flashcore.attention(**make_cache(scale=scale))
    scale.value = 0.125
    bindings.flashcore.attention(**make_cache(scale=scale))
    assert bindings.kernels.calls[-1][1].scale == 0.125


def test_a_bad_argument_is_a_value_error_and_the_rest_a_library_error(bindings: Any) -> None:
    bindings.kernels.status = 1
    with pytest.raises(ValueError, match=r"^splits: must not be negative$"):
        bindings.flashcore.decode(**make_cache(splits=-1))
    bindings.kernels.status = 3
    with pytest.raises(bindings.library.LibraryError):
        bindings.flashcore.decode(**make_cache())


def test_the_output_has_the_strides_of_a_contiguous_query(bindings: Any) -> None:
    for strides, expected in (((1024, 1024, 128, 1), (1024, 1024, 128, 1)), ((128, 128, 384, 1), (1024, 1024, 128, 1))):
        out = bindings.flashcore.decode(**make_cache(q=torch.Tensor((3, SQ, HEADS, D), strides)))
        fields = bindings.kernels.calls[-1][1].out
        assert out.strides == expected
        assert (fields.data, fields.batch_stride, fields.head_stride) == (out.address, expected[0], expected[2])


def test_an_unreadable_tensor_is_refused_in_one_line(bindings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise RuntimeError("Cannot access data pointer\nframe #0")

    monkeypatch.setattr(bindings.kernels, "flashcore_read", fail)
    with pytest.raises(ValueError, match=r"^q, k, .*, lse: one of them cannot be read: Cannot access data pointer$"):
        bindings.flashcore.decode(**make_cache())


@pytest.mark.parametrize("capsule", [None, torch.make_capsule(major=2)])
def test_a_pytorch_without_the_dlpack_table_is_refused(bindings: Any, monkeypatch: pytest.MonkeyPatch, capsule: Any) -> None:
    monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", capsule)
    with pytest.raises(bindings.library.LibraryError, match=r"Install PyTorch 2.11 or newer$|table has version 2. Install"):
        bindings.launch.make_reader(9)


OTHER = torch.Device("cuda", 1)
NEW = {"k_new": torch.empty(3, 2, KV_HEADS, D), "v_new": torch.empty(3, 2, KV_HEADS, D)}
SHARED_ROWS = torch.Tensor((3, CAPACITY, KV_HEADS, D), (0, KV_HEADS * D, D, 1))
BAD_ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    (r"^k: must be a tensor of at most 4 dimensions, is int$", make_cache(k=5)),
    (r"^v: must be a tensor of at most 4 dimensions, has 5$", make_cache(v=torch.empty(1, 3, CAPACITY, KV_HEADS, D))),
    (r"^page_table: must be a tensor of at most 4 dimensions, is list$", make_cache(page_table=[1, 2])),
    (r"^q: must have 4 dimensions, has 3", make_cache(q=torch.empty(3, HEADS, D))),
    (r"^q: must be \(batch, 1 to 16, heads, a multiple of 8 up to 256\), is \(3, 17", make_cache(q=torch.empty(3, 17, HEADS, D))),
    (r"^q: must be \(batch, 1 to 16", make_cache(q=torch.empty(3, 1, HEADS, 100))),
    (r"^q: must be on the CUDA device of q, is on", make_cache(q=torch.empty(3, 1, HEADS, D, device=torch.Device("cpu")))),
    (r"^q: must be float16 or bfloat16", make_cache(q=torch.empty(3, 1, HEADS, D, dtype=torch.float32))),
    (
        r"^q, k, v: one of them requires a gradient",
        make_cache(q=torch.Tensor((3, 1, HEADS, D), (1024, 1024, 128, 1), requires_grad=True)),
    ),
    (r"^k: must have shape \(3, 100, 2, 128\), is \(4,", make_cache(k=torch.empty(4, CAPACITY, KV_HEADS, D))),
    (r"^k: must be float16 or bfloat16 like q", make_cache(k=torch.empty(3, CAPACITY, KV_HEADS, D, dtype=torch.bfloat16))),
    (r"^k: the head dimension must be contiguous", make_cache(k=torch.Tensor((3, CAPACITY, 2, D), (51200, 512, 256, 2)))),
    (r"^v: must have shape", make_cache(v=torch.empty(3, CAPACITY - 1, KV_HEADS, D))),
    (r"^v: must be on the CUDA device of q", make_cache(v=torch.empty(3, CAPACITY, KV_HEADS, D, device=OTHER))),
    (r"^v_new: is missing. Pass both", make_cache(k_new=torch.empty(3, 1, KV_HEADS, D))),
    (r"^k_new: is missing. Pass both", make_cache(v_new=torch.empty(3, 1, KV_HEADS, D))),
    (r"^v_new: must have shape \(3, 2, 2, 128\)", make_cache(k_new=torch.empty(3, 2, 2, D), v_new=torch.empty(3, 1, 2, D))),
    (r"^lengths: must be contiguous torch.int32 of shape \(3,\)", make_cache(lengths=torch.empty(3, dtype=torch.int64))),
    (r"^lengths: must be contiguous torch.int32", make_cache(lengths=torch.empty(4, dtype=torch.int32))),
    (r"^lengths: must be from 0 to 100", make_cache(lengths=101)),
    (r"^lengths: must be from 0 to 100", make_cache(lengths=-1)),
    (r"^lengths: must be from 0 to 112, so that 0 new keys fit, is 113$", make_pages(lengths=113)),
    (r"^lengths: must be from 0 to 110, so that 2 new keys fit, is 111$", make_pages(lengths=111, **NEW)),
    (r"^lengths: must be from 0 to 112", make_pages(lengths=-1)),
    (r"^lengths: must be from 0 to 112", make_pages(lengths=2**40)),
    (r"^lengths: must be from 0 to 98, so that 2 new keys fit, is 99$", make_cache(lengths=99, **NEW)),
    (r"^lse: must be contiguous torch.float32 of shape \(3, 8, 1\)", make_cache(lse=torch.empty(3, 1, 8, dtype=torch.float32))),
    (r"^out: must have shape", make_cache(out=torch.empty(3, 1, HEADS, 64))),
    (
        r"^out: elements share memory, its strides are \(0, 1024, 128, 1\) for shape \(3, 1, 8, 128\). Pass a contiguous tensor$",
        make_cache(out=torch.Tensor((3, 1, HEADS, D), (0, 1024, 128, 1))),
    ),
    (r"^out: elements share memory", make_cache(out=torch.Tensor((3, 1, HEADS, D), (1024, 1024, 120, 1)))),
    (r"^out: elements share memory", make_cache(out=torch.Tensor((3, 1, HEADS, D), (896, 1024, 128, 1)))),
    (r"^k: elements share memory", make_cache(k=SHARED_ROWS, **NEW)),
    (r"^v: elements share memory", make_pages(v=torch.Tensor((40, 16, KV_HEADS, D), (256, 256, 128, 1)), **NEW)),
    (
        "^k: pages must hold a power of two of keys from 16 on, unless queries are packed, hold 8",
        make_pages(k=torch.empty(40, 8, 2, D), v=torch.empty(40, 8, 2, D)),
    ),
    (r"^page_table: must be int32 of shape \(3, pages", make_pages(page_table=torch.empty(3, 7, dtype=torch.int64))),
    (r"^page_table: must be int32 of shape \(3, pages", make_pages(page_table=torch.empty(2, 7, dtype=torch.int32))),
    (r"^page_table: must be int32", make_pages(page_table=torch.Tensor((3, 7), (1, 3), torch.int32))),
    (r"^page_table: must be on the CUDA device", make_pages(page_table=torch.empty(3, 7, dtype=torch.int32, device=OTHER))),
]


@pytest.mark.parametrize(("message", "arguments"), BAD_ARGUMENTS)
def test_bad_input_is_named_before_any_launch(bindings: Any, message: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        bindings.flashcore.decode(**arguments)
    assert "\n" not in str(raised.value)
    assert bindings.kernels.calls == []
    assert not bindings.decode._ENTRY.launches


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("out", torch.Tensor((3, 1, HEADS, D), (1024, 0, 128, 1))),  # the stride of a single row does not count
        ("out", torch.Tensor((3, 1, HEADS, D), (128, 128, 3 * 128, 1))),  # heads outside, and gaps
        ("out", torch.Tensor((3, 1, HEADS, D), (3072, 3072, 128, 1))),  # a part of a fused projection
        ("k", SHARED_ROWS),  # which is only read
    ],
)
def test_views_without_overlap_or_only_read_are_accepted(bindings: Any, name: str, tensor: Any) -> None:
    bindings.flashcore.decode(**make_cache(**{name: tensor}))
    assert len(bindings.kernels.calls) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"k": torch.Tensor((3, CAPACITY, KV_HEADS, D), (CAPACITY * 512, 512, 128, 1))},
        {"v": torch.Tensor((3, CAPACITY, KV_HEADS, D), (CAPACITY * 512, 512, 128, 1))},
        {"q": torch.Tensor((3, SQ, HEADS, D), (2048, 2048, 128, 1))},
        {"lengths": torch.empty(3, dtype=torch.int32)},
        {"lengths": 99},
        {"lse": torch.empty(3, HEADS, SQ, dtype=torch.float32)},
        {"out": torch.Tensor((3, SQ, HEADS, D), (2048, 2048, 128, 1))},
        {"scale": 0.5},
        {"deterministic": True},
        make_tensors(dtype=torch.bfloat16),
        make_tensors(device=torch.Device("cuda", 1)),
    ],
    ids="-".join,
)
def test_every_dependency_of_a_launch_is_part_of_its_key(bindings: Any, change: dict[str, Any]) -> None:
    """After a change, and after the change back, every field equals that of a first call."""
    for arguments in (make_cache(**change), make_cache(), make_cache(**change), make_cache()):
        bindings.flashcore.decode(**arguments)
        bindings.decode._ENTRY.launches, launches = type(bindings.decode._ENTRY.launches)(), bindings.decode._ENTRY.launches
        bindings.flashcore.decode(**arguments)
        bindings.decode._ENTRY.launches = launches
        fields, first = (get_fields(call) for call in bindings.kernels.calls[-2:])
        assert drop_new_addresses(fields, arguments) == drop_new_addresses(first, arguments)
    assert len(bindings.decode._ENTRY.launches) == 2


def drop_new_addresses(fields: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return comparable fields, without the address of a new output."""
    numbers = {name: bytes(value) if isinstance(value, ctypes.Structure) else value for name, value in fields.items()}
    return numbers if "out" in arguments else {**numbers, "out": bytes(fields["out"])[8:]}

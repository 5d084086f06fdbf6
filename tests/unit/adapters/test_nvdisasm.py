import json
from pathlib import Path

import pytest

from flashcore_ci.adapters import nvdisasm

RECORDINGS = Path(__file__).parents[2] / "recordings/nvcc"


def text_of(*instructions, name="k", major=13):
    function = {
        "function-name": name,
        "sass-instructions": [{"opcode": opcode, "operands": rest} for opcode, rest in instructions],
    }
    return json.dumps([{"SchemaVersion": {"major": major}}, [function]])


def test_a_real_disassembly():
    (function,) = nvdisasm.parse((RECORDINGS / "scale.json").read_text(encoding="utf-8"))
    counts = dict(function.opcodes)
    assert function.name == "scale"
    assert (counts["LDG"], counts["STG"], counts["FMUL"], counts["EXIT"]) == (1, 1, 1, 1)
    assert function.waits == 0
    assert 2 < function.highest_register <= 8


def test_modifiers_do_not_count_but_waits_are_told_apart():
    (function,) = nvdisasm.parse(
        text_of(
            ("HGMMA.64x128x16.F32", "R24,gdesc[UR12],RZ,!UPT"),
            ("WARPGROUP.ARRIVE", ""),
            ("WARPGROUP.DEPBAR.LE", "gsb0,0x1"),
            ("WARPGROUP.DEPBARRIER", ""),
        )
    )
    assert dict(function.opcodes) == {"HGMMA": 1, "WARPGROUP": 3}
    assert function.waits == 1


@pytest.mark.parametrize(
    ("opcode", "operands", "highest"),
    [
        ("MOV", "R7,R3", 8),
        ("MOV", "UR63,URZ", 0),
        ("MOV", "RZ,0x1", 0),
        ("LDG.E.128", "R16,desc[UR6][R50.64]", 52),
        ("LDG.E.128", "R52,desc[UR6][R2.64]", 56),
        ("STG.E.64", "desc[UR6][R2.64],R8", 10),
        ("F2F.F64.F32", "R8,R3", 9),
        ("FMUL", "R36.reuse,R2,R3", 37),
    ],
)
def test_highest_register(opcode, operands, highest):
    (function,) = nvdisasm.parse(text_of((opcode, operands)))
    assert function.highest_register == highest


FENCE, STORE, SEND = "FENCE.VIEW.ASYNC.S", "STSM.16.M88.4", "UTMASTG.4D"


@pytest.mark.parametrize(
    ("opcodes", "count"),
    [
        ((STORE, FENCE, SEND), 0),
        ((STORE, SEND), 1),
        ((STORE, SEND, SEND), 2),
        ((FENCE, STORE, SEND, FENCE, SEND), 1),
        ((STORE, FENCE, SEND, STORE, SEND), 1),
        ((SEND, STORE), 0),
        (("STS.64", "MEMBAR.ALL.CTA", "BAR.SYNC.DEFER_BLOCKING", SEND), 1),
        (("STG.E", "UTMALDG.4D", SEND), 0),
    ],
)
def test_bulk_stores_without_a_proxy_fence_after_ordinary_stores(opcodes, count):
    (function,) = nvdisasm.parse(text_of(*((opcode, "") for opcode in opcodes)))
    assert function.unfenced_tma_stores == count


def test_merge():
    first, second = nvdisasm.parse(text_of(("MOV", "R7,R3")))[0], nvdisasm.parse(text_of(("MOV", "R1,R2"), ("STL", "[R1],R2")))[0]
    merged = nvdisasm.merge((first, second), name="k")
    assert dict(merged.opcodes) == {"MOV": 2, "STL": 1}
    assert merged.highest_register == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[{}, []]",
        '[{"SchemaVersion": {"major": 99}}, []]',
        text_of(("MOV", ""))[:-9],
        text_of((7, "")),
        "[" * 9999,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="nvdisasm wrote"):
        nvdisasm.parse(text)

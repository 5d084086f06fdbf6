"""nvdisasm: count the instructions of a cubin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json

_REGISTER = re.compile(r"\bR(\d+)\b(\.64)?")
_ADDRESS = re.compile(r"\[[^\]]*\]")
_WIDE = re.compile(r"\.(64|128)\b")
_WAIT = "WARPGROUP.DEPBAR"
MAX_CONTAINERS = 1_000_000
"""Of one disassembly, in memory. The largest of our kernels has 20,000 instructions, and each is one or two."""
MAX_OPCODE = 80
_SHARED_STORES = ("STS", "STSM", "ATOMS", "REDS")
_TMA_STORES = ("UTMASTG", "UTMAREDG", "UBLKRED")
_PROXY_FENCE = "FENCE.VIEW.ASYNC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a cubin. ``opcodes`` have no modifiers, ``waits`` are ``WARPGROUP.DEPBAR``.

    ``unfenced_tma_stores``: TMA stores from shared memory after an ordinary store to it without a proxy fence between, in code
    order. ``highest_register``: the highest number plus one, or 0. The last register of a vector counts.
    """

    name: str
    opcodes: tuple[tuple[str, int], ...]
    waits: int
    unfenced_tma_stores: int
    highest_register: int


def argv(nvdisasm: Path, cubin: Path) -> tuple[str, ...]:
    """Disassemble ``cubin`` to JSON on standard output."""
    return (str(nvdisasm), "-json", str(cubin))


def parse(text: str) -> tuple[Function, ...]:
    """Parse the functions. ValueError if this is not JSON of schema 12 or 13."""
    if text.count("{") + text.count("[") > MAX_CONTAINERS:
        raise ValueError(f"nvdisasm wrote more than {MAX_CONTAINERS} lists and tables")
    try:
        header, functions = strict_json.loads(text)
        major = header["SchemaVersion"]["major"]
        parsed = tuple(_function(function) for function in functions)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"nvdisasm wrote something that is not its JSON: {error!r}") from None
    if major not in (12, 13):
        raise ValueError(f"nvdisasm wrote its JSON in the unknown schema {major}")
    return parsed


def merge(functions: tuple[Function, ...], *, name: str) -> Function:
    """Merge functions: add the counts, take the highest register."""
    opcodes = Counter[str]()
    for function in functions:
        opcodes.update(dict(function.opcodes))
    return Function(
        name=name,
        opcodes=tuple(sorted(opcodes.items())),
        waits=sum(function.waits for function in functions),
        unfenced_tma_stores=sum(function.unfenced_tma_stores for function in functions),
        highest_register=max((function.highest_register for function in functions), default=0),
    )


def _function(function: dict[str, Any]) -> Function:
    instructions = function["sass-instructions"]
    if any(len(instruction["opcode"]) > MAX_OPCODE for instruction in instructions):
        raise ValueError(f"an opcode of more than {MAX_OPCODE} characters")
    opcodes = Counter(instruction["opcode"].split(".", 1)[0] for instruction in instructions)
    return Function(
        name=function["function-name"],
        opcodes=tuple(sorted(opcodes.items())),
        waits=sum(f"{instruction['opcode']}.".startswith(f"{_WAIT}.") for instruction in instructions),
        unfenced_tma_stores=_count_unfenced_tma_stores([instruction["opcode"] for instruction in instructions]),
        highest_register=max((_highest(instruction) for instruction in instructions), default=-1) + 1,
    )


def _count_unfenced_tma_stores(opcodes: Sequence[str]) -> int:
    """Count in code order: the compiler places a store just before its reader."""
    unfenced_store, count = False, 0
    for opcode in opcodes:
        name = opcode.split(".", 1)[0]
        if name in _SHARED_STORES:
            unfenced_store = True
        elif opcode.startswith(_PROXY_FENCE):
            unfenced_store = False
        elif name in _TMA_STORES:
            count += unfenced_store
    return count


def _highest(instruction: dict[str, Any]) -> int:
    operands, wide = instruction.get("operands", ""), _WIDE.search(instruction["opcode"])
    more = int(wide[1]) // 32 - 1 if wide else 0
    data = [int(number) + more for number, _ in _REGISTER.findall(_ADDRESS.sub("", operands))]
    addresses = [int(number) + bool(pair) for number, pair in _REGISTER.findall(operands)]
    return max((*data, *addresses), default=-1)

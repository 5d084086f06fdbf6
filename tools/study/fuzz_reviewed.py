"""Readers of files that a pull request adds and a person reviews, for the fuzzer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.scaffold import definitions, kernelbench
from flashcore_ci.scaffold.foreign import ForeignError
from flashcore_ci.suite import acceptances, alerts

PARTS = ("definition.json", "workload.jsonl", "solution.json")
Found = tuple[str, list[bytes], Callable[[bytes], object], tuple[type[Exception], ...]]


def readers(folder: Path) -> Iterator[Found]:
    """Yield name, corpus, reader and promised exceptions."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
    import foreign_files as foreign  # noqa: PLC0415 - the tests' small problems

    series = AlertedSeries(suite="s", workload="w", machine_class="m", percent=0.6, standard_error=0.07, z=8.1)
    days = {"opened": "2026-11-01", "until": "2026-12-01", "owner": "o", "reason": "r", "last_good": ""}
    alert = AlertFile(id=f"{'a' * 12}-{'b' * 8}", state=AlertState.ACTIVE, commit="a" * 40, series=(series,), **days)
    read = lambda data: alerts.parse_alert(data.decode(errors="replace"), f"{alert.id}.toml")  # noqa: E731 - one of several
    yield "alert", [alerts.text_of(alert).encode()], read, (SuiteError,)
    accepted = folder / acceptances.FOLDER / "a.toml"
    text = "".join(f'{key} = "{"0" * 64}"\n' for key in ("base", "difference", "why", "owner")).encode()
    read = _through(accepted, lambda _: acceptances.read_acceptances(folder / "suite.toml"))
    yield "acceptance", [text], read, (SuiteError,)
    whole = (foreign.definition(), foreign.workload(), foreign.solution())

    def imported(data: bytes) -> object:
        name, _, content = data.decode(errors="replace").partition("\n")
        file = foreign.written(folder / "problem", solved=whole[2])
        file.with_name(name if name in PARTS else PARTS[0]).write_text(content)
        return list(definitions.read(file, origin="o", most=20))

    corpus = [f"{part}\n{json.dumps(content)}".encode() for part, content in zip(PARTS, whole, strict=True)]
    yield "definition", corpus, imported, (ForeignError,)
    model, new = folder / "model.py", ("new.py", foreign.MODEL_NEW)
    read = _through(model, lambda file: kernelbench.read(file, origin="o", candidate=new))
    yield "KernelBench problem", [foreign.MODEL.encode()], read, (ForeignError,)


def _through(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def written(data: bytes) -> object:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return read(file)

    return written

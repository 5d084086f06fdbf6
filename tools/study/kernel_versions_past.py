"""The versions of the kernels, and what sittings measured of them. ``kernel-versions.json.xz`` has both.

``python tools/study/kernel_versions_past.py FILE --apart FOLDER`` puts a sitting of ``kernel_versions_apart.py`` into FILE.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "detectors"))
from kernel_versions import WORKLOADS, code_of
from labelled import MIXED

from flashcore_ci.model.evidence import BuildEvidence, Device
from flashcore_ci.model.suite import Workload
from flashcore_ci.store.codec import decode

CONTROL = ("acc56c45e9-attention", "2bf3d53845-attention")
"""Two versions of prefill with the same machine code."""
LARGEST = 0.005
"""A control that is farther off makes a sitting useless."""
FEWEST = 3
"""Complete rounds."""


def collected(folder: Path, out: Path, sitting: Path) -> None:
    """Write builds and times into one file."""
    processes = [json.loads(file.read_text(encoding="utf-8")) for file in sitting.glob("process-*.json")]
    whole = {
        "versions": json.loads((folder / "versions.json").read_text(encoding="utf-8")),
        "sitting": json.loads((sitting / "sitting.json").read_text(encoding="utf-8")),
        "processes": sorted(processes, key=lambda each: each["began"]),
    }
    write(whole, out)


def write(data: dict[str, Any], out: Path) -> None:
    """Compress everything."""
    out.write_bytes(lzma.compress(json.dumps(data, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


@dataclass(frozen=True)
class Recording:
    """A sitting: processes that timed several versions each, or rounds of processes that timed one each."""

    sitting: dict[str, Any]
    processes: list[dict[str, Any]]

    @property
    def device(self) -> Device:
        """Return the GPU."""
        name, uuid, driver = self.sitting["gpus"][int(self.sitting["visible"].split(",")[0])].split(", ")[:3]
        found = self.processes[0]["device"]
        return Device(
            name=name, uuid=uuid, driver=driver, compute_capability=f"{found['major']}.{found['minor']}",
            multiprocessors=found["multi_processor_count"], memory=found["total_memory"], l2=found["L2_cache_size"],
        )  # fmt: skip

    def rows(self, workload: str) -> list[dict[str, Any]]:
        """Return for each process what it measured of a workload, by version."""
        return [process["rows"].get(workload, {}) for process in self.processes]

    def has(self, workload: str, name: str) -> bool:
        """Whether a version was timed."""
        return any(name in row for row in self.rows(workload))


def rounds_of(apart: dict[str, Any]) -> list[dict[str, Any]]:
    """Join processes of one version each to rounds of all versions. A round that lacks one is left out."""
    count = len({each["version"] for each in apart["processes"]})
    found: dict[int, list[dict[str, Any]]] = {}
    for each in apart["processes"]:
        if "seconds" in each:  # it ended
            found.setdefault(each["process"] // count, []).append(each)
    return [
        {**parts[0], "rows": {row: {part["version"]: part["rows"][row] for part in parts} for row in parts[0]["rows"]}}
        for _, parts in sorted(found.items())
        if len(parts) == count
    ]


def problems_of(apart: dict[str, Any]) -> list[str]:
    """Say why a sitting cannot be used, or nothing."""
    found, rounds = [], rounds_of(apart)
    wrong = [each["process"] for each in apart["processes"] if len(each["libraries"]) != 1]
    if wrong:
        found.append(f"processes {wrong} had loaded more or less than one library")
    if len(rounds) < FEWEST:
        return [*found, f"{len(rounds)} complete rounds, and {FEWEST} are needed"]
    for row in sorted(rounds[0]["rows"]):
        one, two = ([each["rows"][row][name] for each in rounds] for name in CONTROL)
        off = statistics.median(a["megacycles"] / b["megacycles"] for a, b in zip(one, two, strict=True)) - 1
        if abs(off) > LARGEST:
            found.append(f"{row}: versions with the same code differ by {100 * off:+.2f} %")
        if len({each["sum"] for each in (*one, *two)}) > 1:
            found.append(f"{row}: versions with the same code have other results")
    return found


class Past:
    """All versions, and what sittings measured of them."""

    def __init__(self, file: Path) -> None:
        data = json.loads(lzma.decompress(file.read_bytes()))
        self.versions, self.newest = data["versions"], data["versions"][-1]
        for rows, row in ((process["rows"], row) for process in data["processes"] for row in process["rows"] if "prefill" in row):
            rows[row] = {name: each for name, each in rows[row].items() if name[:7] not in MIXED}
        self.recordings = [Recording(data["sitting"], data["processes"])]
        if "apart" in data:
            self.recordings.append(Recording(data["apart"]["sitting"], rounds_of(data["apart"])))

    def new_rows(self) -> Iterator[tuple[dict[str, Any], list[tuple[Workload, str]]]]:
        """Yield each commit with the rows whose code it brought, and the name under which that was measured."""
        known: set[tuple[str, str]] = set()
        for row in self.versions:
            found = []
            for workload in WORKLOADS:
                code = code_of(row, workload)
                if code is not None and ((workload.id, code) not in known or row is self.newest):
                    known.add((workload.id, code))
                    found.append((workload, self.measured_as(row, workload, code)))
            if found:
                yield row, found

    def measured_as(self, row: dict[str, Any], workload: Workload, code: str) -> str:
        """Return the name of the version with this code that was measured, or nothing. A row's own name comes first."""
        same = (each for each in (row, *self.versions) if code_of(each, workload) == code)
        names = (f"{each['commit'][:10]}-{workload.subject}" for each in same)
        return next((name for name in names if any(each.has(workload.id, name) for each in self.recordings)), "")

    def recording_of(self, workload: Workload, name: str) -> Recording:
        """Return the first sitting that timed a version."""
        return next((each for each in self.recordings if each.has(workload.id, name)), self.recordings[0])

    def times(self, workload: Workload, name: str, scale: str, other: str | None = None) -> list[float]:
        """Return the medians of a version: of its first sitting, or of all processes and rounds that also have the other one."""
        recordings = self.recordings if other else [self.recording_of(workload, name)]
        rows = [row for each in recordings for row in each.rows(workload.id)]
        return [row[name][scale] for row in rows if scale in row.get(name, {}) and scale in row.get(other or name, {})]

    def build(self, row: dict[str, Any], subject: str) -> BuildEvidence:
        """Return the build of one subject."""
        return decode(BuildEvidence, json.dumps(row["builds"][subject]["evidence"]).encode(), where=row["commit"])


def main() -> int:
    """Put a sitting into the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--apart", type=Path, required=True)
    options = parser.parse_args()
    data = json.loads(lzma.decompress(options.file.read_bytes()))
    processes = [json.loads(file.read_text(encoding="utf-8")) for file in options.apart.glob("process-*.json")]
    sitting = json.loads((options.apart / "sitting.json").read_text(encoding="utf-8"))
    data["apart"] = {"sitting": sitting, "processes": sorted(processes, key=lambda each: each["process"])}
    problems = problems_of(data["apart"])
    print("\n".join(problems) or f"{len(rounds_of(data['apart']))} rounds")
    if not problems:
        write(data, options.file)
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())

import itertools
import lzma
import math
from pathlib import Path
from types import SimpleNamespace

import ncu_report
import pytest

from flashcore_ci.adapters import ncu, ncu_reader
from flashcore_ci.adapters.ncu import Action
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind

RECORDINGS = Path(__file__).parents[2] / "recordings/ncu"


def recorded(name):
    return (RECORDINGS / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report():
    return lzma.decompress((RECORDINGS / "two-workloads.ncu-rep.xz").read_bytes())


def read(folder, data):
    path = folder / "report.ncu-rep"
    path.write_bytes(data)
    return ncu.read_actions(ncu_report, path)


def action(kernel="axpy", workload="big", **changes):
    metrics = {metric.sources[0]: (50.0, metric.source_unit) for metric in ncu.NCU_METRICS}
    metrics[ncu.DURATION] = (1000.0, "ns")
    return Action(workload=workload, kernel=kernel, metrics={**metrics, **changes})


def code(found):
    assert isinstance(found, Missing)
    return found.code


def test_a_whole_report_gives_every_metric_of_every_workload(tmp_path, report):
    actions = read(tmp_path, report)
    for workload, kernel in (("red-clean", "fault_clean"), ("red-race", "fault_race")):
        found = ncu.make_readings(actions, workload, (kernel,))
        assert not isinstance(found, Missing)
        assert all(isinstance(reading, Measured) for reading in found.values())
        assert found["time/gpu/profiled"].value == pytest.approx(0.00208)


def test_names_and_units_are_the_contract():
    profiled = {name: metric.unit for name, metric in METRICS.items() if metric.kind is Kind.PROFILE}
    assert {metric.name: metric.unit for metric in ncu.NCU_METRICS} | {ncu.LAUNCHES: "count"} == profiled


@pytest.mark.parametrize("data", [b"", b"junk" * 100])
def test_an_empty_or_junk_report_is_invalid_and_no_fault_of_the_kernel(tmp_path, data):
    assert code(ncu.make_readings(read(tmp_path, data), "red-clean", ("fault_clean",))) is Code.INVALID_REPORT


def test_an_absent_report_is_invalid(tmp_path):
    actions = ncu.read_actions(ncu_report, tmp_path / "absent.ncu-rep")
    assert code(ncu.make_readings(actions, "red-clean", ())) is Code.INVALID_REPORT


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_report_gives_no_number(tmp_path, report, part):
    actions = read(tmp_path, report[: int(len(report) * part)])
    found = ncu.make_readings(actions, "red-race", ("fault_race",))
    assert isinstance(found, Missing) or any(isinstance(reading, Missing) for reading in found.values())


def test_an_altered_report_whose_action_lost_its_name_is_invalid():
    nameless = Action(workload="", kernel="", metrics={})
    assert code(ncu.make_readings((action(), nameless), "big", ("axpy",))) is Code.INVALID_REPORT


def test_the_name_must_be_the_planned_one():
    assert code(ncu.make_readings((action("other"),), "big", ("axpy",))) is Code.KERNEL_NOT_SEEN
    assert code(ncu.make_readings((action("axpy", workload="small"),), "big", ("axpy",))) is Code.KERNEL_NOT_SEEN
    assert code(ncu.make_readings((action("axpy"), action("helper")), "big", ("axpy",))) is Code.UNEXPECTED_KERNEL


def test_a_subject_that_names_no_kernel_may_run_any():
    assert not isinstance(ncu.make_readings((action("anything"),), "big", ()), Missing)
    assert code(ncu.make_readings((action(workload="small"),), "big", ())) is Code.KERNEL_NOT_SEEN


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((math.nan, "%"), Code.INVALID_REPORT),
        ((math.inf, "%"), Code.INVALID_REPORT),
        ((-1.0, "%"), Code.INVALID_REPORT),
        ((153541716250.0, "%"), Code.INVALID_REPORT),  # what one flipped bit made of 33.6 %: another metric's value
        ((50.0, ""), Code.UNIT_MISMATCH),
        ((0.5, "ratio"), Code.UNIT_MISMATCH),
    ],
)
def test_a_metric_that_is_no_finite_number_of_its_unit_is_missing(value, expected):
    found = ncu.make_readings((action(**{f"sm__throughput.{ncu.PEAK}": value}),), "big", ("axpy",))
    assert code(found["sol/sm"]) is expected
    assert isinstance(found["sol/dram"], Measured)


def test_an_absent_metric_is_missing_and_never_zero():
    bare = Action(workload="big", kernel="axpy", metrics={ncu.DURATION: (1000.0, "ns")})
    found = ncu.make_readings((bare,), "big", ("axpy",))
    assert code(found["sol/sm"]) is Code.METRIC_ABSENT


def test_an_older_name_of_the_same_quantity_is_known():
    older = {f"gpu__dram_throughput.{ncu.PEAK}": (86.5, "%"), ncu.DURATION: (1000.0, "ns")}
    found = ncu.make_readings((Action(workload="big", kernel="axpy", metrics=older),), "big", ("axpy",))
    assert found["sol/dram"] == Measured(value=86.5, unit="%")


def test_shares_are_averaged_by_time_and_times_add_up():
    sm = f"sm__throughput.{ncu.PEAK}"
    pair = (action(**{sm: (90.0, "%"), ncu.DURATION: (3000.0, "ns")}), action(**{sm: (10.0, "%"), ncu.DURATION: (1000.0, "ns")}))
    found = ncu.make_readings(pair, "big", ("axpy",))
    assert found["sol/sm"] == Measured(value=70.0, unit="%")
    assert found["time/gpu/profiled"].value == pytest.approx(0.004)


def test_no_time_no_share():
    found = ncu.make_readings((action(**{ncu.DURATION: (0.0, "ns")}),), "big", ("axpy",))
    assert code(found["sol/sm"]) is Code.INVALID_REPORT


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            Code.COUNTERS_DENIED,
        ),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", Code.COUNTERS_IN_USE),
        ("==ERROR== Failed to find metric sm__nonsense", Code.TOOL_FAILED),
    ],
)
def test_complaints_have_codes(line, expected):
    assert code(ncu.find_error(f"==PROF== Connected\n{line}\n")) is expected


def test_recorded_complaints():
    assert ncu.find_error(recorded("ok.out")) is None
    assert code(ncu.find_error(recorded("none.out"))) is Code.KERNEL_NOT_SEEN
    assert code(ncu.find_error(recorded("abort.out"))) is Code.TOOL_FAILED


def test_clocks_are_left_alone_and_no_source_is_stored():
    argv = ncu.argv(Path("/ncu"), report=Path("/r.ncu-rep"), command=("python", "x"))
    options = dict(itertools.pairwise(argv))
    assert options["--clock-control"] == "none"
    assert options["--import-source"] == "no"
    assert options["--profile-from-start"] == "off"
    assert options["--export"] == "/r.ncu-rep"
    assert "--set" not in argv
    assert argv[-2:] == ("python", "x")


def test_the_version_is_read():
    assert ncu.parse_version(recorded("version.txt")) == "2025.3.1.0"
    assert ncu.parse_version("") == ""


def test_the_reader_beside_the_tool_is_found(tmp_path, monkeypatch):
    folder = tmp_path / "extras/python"
    folder.mkdir(parents=True)
    imports = []

    def import_module(name):
        imports.append(name)
        if len(imports) == 1:
            raise ImportError(name)
        return SimpleNamespace(name=name)

    monkeypatch.setattr(ncu, "importlib", SimpleNamespace(import_module=import_module))
    monkeypatch.setattr(ncu.sys, "path", [])
    assert ncu.import_reader(tmp_path / "ncu").name == "ncu_report"
    assert ncu.sys.path == [str(folder)]


def test_without_any_reader_this_machine_cannot_collect(tmp_path, monkeypatch):
    def import_module(name):
        raise ImportError(name)

    monkeypatch.setattr(ncu, "FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(ncu, "importlib", SimpleNamespace(import_module=import_module))
    with pytest.raises(CannotCollectError):
        ncu.import_reader(tmp_path / "ncu")


def test_a_reader_that_raises_reads_nothing():
    def load_report(path):
        raise RuntimeError(path)

    assert ncu.read_actions(SimpleNamespace(load_report=load_report), Path("/r")) == ()


def test_what_a_reader_prints_is_what_it_read(tmp_path, report, capsys):
    (tmp_path / "whole.ncu-rep").write_bytes(report)
    assert ncu_reader.main([str(tmp_path / "whole.ncu-rep"), str(tmp_path / "ncu")]) == 0
    found = ncu.parse_actions("noise of a library\n" + capsys.readouterr().out)
    assert found == ncu.read_actions(ncu_report, tmp_path / "whole.ncu-rep")
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    ["", "\n", "[", "{}", "null", "5", "[5]", "[{}]", '[{"workload": "w"}]', '[{"workload": "w", "kernel": "k", "metrics": [1]}]']
    + [f'[{{"workload": "w", "kernel": "k", "metrics": {{"m": {value}}}}}]' for value in ("1", "[1]", '["x", "y"]', "[null, 1]")],
)
def test_a_reader_that_was_cut_short_read_nothing(text):
    assert ncu.parse_actions(text) == ()

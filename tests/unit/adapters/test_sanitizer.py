import itertools
from pathlib import Path

import pytest

from flashcore_ci.adapters import sanitizer, sanitizer_log
from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing

RECORDINGS = Path(__file__).parents[2] / "recordings/sanitizer"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
ZERO = Measured(value=0.0, unit="count")


def recorded(name):
    return (RECORDINGS / f"{name}.log").read_text(encoding="utf-8")


def reading(text, check="memcheck", **changes):
    facts = {"returncode": 0, "version": "2026.4.0.0", "ran": True, **changes}
    return sanitizer.read_findings(sanitizer_log.parse(text, check), **facts)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_clean_log_of_each_tool_is_zero_findings(check):
    assert reading(recorded(f"clean-{check}"), check) == ZERO


@pytest.mark.parametrize(
    ("name", "check", "kernel", "line"),
    [
        ("oob", "memcheck", "fault_oob", 14),
        ("race", "racecheck", "fault_race", 18),
        ("sync", "synccheck", "fault_sync", 25),
        ("uninit", "initcheck", "fault_uninit", 22),
    ],
)
def test_a_planted_fault_is_found_with_its_place(name, check, kernel, line):
    found = reading(recorded(name), check, returncode=sanitizer.ERROR_EXIT)
    assert isinstance(found, Measured)
    assert found.value > 0
    first = sanitizer_log.parse(recorded(name), check).findings[0]
    assert (first.tool, first.kernel, first.file, first.line) == (check, kernel, "faults.cu", line)


def test_a_copy_of_memory_that_was_never_written_is_a_finding_without_a_kernel():
    text = recorded("host-copy")
    assert reading(text, "initcheck", returncode=sanitizer.ERROR_EXIT) == Measured(value=2.0, unit="count")
    (finding,) = sanitizer_log.parse(text, "initcheck").findings
    assert (finding.kernel, finding.file, finding.count) == ("", "", 2)
    assert finding.message.startswith("Host API memory access error at host access to 0x")


def test_threads_that_say_the_same_are_one_finding_with_a_count():
    (finding,) = sanitizer_log.parse(recorded("sync"), "synccheck").findings
    assert finding.message == "Barrier error detected. Divergent thread(s) in warp."
    assert (finding.thread, finding.block, finding.count) == ("(32,0,0)", "(0,0,0)", 32)


def test_a_race_names_both_ends():
    finding = sanitizer_log.parse(recorded("race"), "racecheck").findings[0]
    assert "faults.cu:18" in finding.message
    assert "faults.cu:19" in finding.message


@pytest.mark.parametrize(
    ("line", "check", "count"),
    [
        ("ERROR SUMMARY: 0 errors", "memcheck", 0),
        ("ERROR SUMMARY: 1 error", "memcheck", 1),
        ("ERROR SUMMARY: 2 errors", "synccheck", 2),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "racecheck", 0),
        ("RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", "racecheck", 1),
        ("RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)", "racecheck", 1),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 3 warnings)", "racecheck", 3),
        ("RACECHECK SUMMARY: 12 hazards displayed (7 errors, 5 warnings)", "racecheck", 12),
    ],
)
def test_the_summary_is_read_in_every_grammatical_form(line, check, count):
    assert sanitizer_log.parse(f"========= COMPUTE-SANITIZER\n========= {line}\n", check).total == count


@pytest.mark.parametrize(
    "line",
    [
        "ERROR SUMMARY: none",
        "ERROR SUMMARY: 0 errors, 3 warnings",
        "RACECHECK SUMMARY: 0 hazards",
        "LEAK SUMMARY: 8 bytes leaked",
    ],
)
def test_a_summary_in_words_that_we_do_not_know_proves_nothing(line):
    assert reading(f"{CLEAN}========= {line}\n").code is Code.UNKNOWN_OUTPUT


def test_a_summary_of_the_other_kind_counts_too():
    races = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n========= ERROR SUMMARY: 2 errors\n"
    assert sanitizer_log.parse(races, "racecheck").total == 2
    assert sanitizer_log.parse("========= ERROR SUMMARY: 0 errors\n", "racecheck").total is None


def test_of_functions_that_call_each_other_the_entry_function_is_the_kernel():
    (finding,) = sanitizer_log.parse(recorded("inlined"), "memcheck").findings
    assert finding.kernel == "mutant_lse_past_the_end"
    assert finding.file.endswith("epilogue.cuh")
    assert (finding.line, finding.thread, finding.block) == (31, "(160,0,0)", "(0,0,0)")


def test_how_many_were_not_printed_is_no_second_summary():
    assert sanitizer_log.parse(recorded("oob"), "memcheck").total == 244


def test_a_racecheck_log_is_not_judged_by_another_tools_summary():
    assert reading(CLEAN, "racecheck") == Missing(code=Code.TOOL_FAILED, message="the log has no summary line, exit status 0")


@pytest.mark.parametrize(
    ("text", "changes", "code"),
    [
        ("", {}, Code.TOOL_FAILED),
        ("========= COMPUTE-SANITIZER\n", {}, Code.TOOL_FAILED),
        (CLEAN, {"returncode": 1}, Code.TOOL_FAILED),
        (CLEAN, {"returncode": sanitizer.ERROR_EXIT}, Code.TOOL_FAILED),
        (CLEAN, {"returncode": -11}, Code.TOOL_FAILED),
        (CLEAN, {"ran": False}, Code.CRASH),
        (CLEAN, {"version": ""}, Code.TOOL_TOO_OLD),
        (CLEAN, {"version": "2025.3.1.0"}, Code.TOOL_TOO_OLD),
        (CLEAN, {"version": "2026.3.9.0"}, Code.TOOL_TOO_OLD),
        (f"========= Internal Sanitizer Error: it is lost\n{CLEAN}", {}, Code.TOOL_LOST_TRACK),
        (f"========= Warning: Errors might go undetected\n{CLEAN}", {}, Code.TOOL_LOST_TRACK),
    ],
)
def test_zero_errors_alone_is_not_clean(text, changes, code):
    found = reading(text, **changes)
    assert isinstance(found, Missing)
    assert found.code is code


def test_a_finding_that_is_printed_beats_a_summary_of_zero():
    text = recorded("uninit").replace("ERROR SUMMARY: 16 errors", "ERROR SUMMARY: 0 errors")
    found = reading(text, "initcheck")
    assert isinstance(found, Measured)
    assert found.value >= 1


@pytest.mark.parametrize("name", ["segv", "died"])
def test_a_target_that_dies_under_zero_hazards_is_a_crash(name):
    found = reading(recorded(name), "racecheck", returncode=11)
    assert isinstance(found, Missing)
    assert found.code is Code.CRASH


def test_a_program_without_cuda_was_not_checked():
    found = reading(recorded("nocuda"), returncode=255)
    assert isinstance(found, Missing)
    assert found.code is Code.NO_LAUNCH_CHECKED


def test_a_filter_that_matches_nothing_looks_clean_so_the_roll_call_is_needed():
    assert reading(recorded("filter-none-memcheck")) == reading(recorded("clean-memcheck"))
    listed = sanitizer_log.parse_launches(recorded("listed"))
    assert [(launch.kernel, launch.checked) for launch in listed] == [
        ("fault_clean", True),
        ("_Z4noopPf", False),
        ("fault_clean", True),
        ("_Z4noopPf", False),
    ]


def test_a_log_that_lists_launches_is_never_taken_for_a_clean_one():
    assert reading(recorded("listed"), returncode=sanitizer.ERROR_EXIT) != ZERO


def test_the_width_of_a_mark_is_read():
    marks = [
        launch for launch in sanitizer_log.parse_launches(recorded("roll-call")) if launch.kernel.startswith("flashcore_ci_")
    ]
    assert [(mark.kernel, mark.width) for mark in marks] == [
        ("flashcore_ci_begin", 1),
        ("flashcore_ci_end", 1),
        ("flashcore_ci_begin", 2),
        ("flashcore_ci_end", 2),
    ]


@pytest.mark.parametrize(("name", "version"), [("2026.4", "2026.4.0.0"), ("2025.3", "2025.3.1.0")])
def test_the_version_is_read(name, version):
    assert sanitizer.parse_version((RECORDINGS / f"version-{name}.txt").read_text(encoding="utf-8")) == version


def test_no_version_is_no_version():
    assert sanitizer.parse_version("command not found") == ""


def test_the_command_line_leaves_no_default_that_fails_open():
    argv = sanitizer.argv(Path("/cs"), "racecheck", kernels=("a", "b"), log=Path("/log"), command=("python", "x"))
    assert argv[:3] == ("/cs", "--tool", "racecheck")
    assert argv[-2:] == ("python", "x")
    options = dict(itertools.pairwise(argv))
    assert options["--error-exitcode"] == "86"
    assert options["--require-cuda-init"] == "yes"
    assert options["--check-tensor-ops"] == "yes"
    assert options["--log-file"] == "/log"
    assert [value for name, value in itertools.pairwise(argv) if name == "--kernel-name"] == ["kne=a", "kne=b"]


def test_the_roll_call_uses_the_same_filter():
    arguments = {"kernels": ("a",), "log": Path("/log"), "command": ("python",)}
    call = sanitizer.launch_list_argv(Path("/cs"), **arguments)
    assert "--dump-kernel-launches" in call
    assert "kne=a" in call
    assert "--dump-kernel-launches" not in sanitizer.argv(Path("/cs"), "memcheck", **arguments)


def test_another_check_is_refused():
    with pytest.raises(ValueError, match="leakcheck"):
        sanitizer.argv(Path("/cs"), "leakcheck", kernels=(), log=Path("/log"), command=())


def test_an_api_error_is_a_finding_without_a_place():
    text = "========= Program hit cudaErrorInvalidValue (error 1) on CUDA API call to cudaMalloc.\n========= \n========= ERROR SUMMARY: 1 error\n"
    (finding,) = sanitizer_log.parse(text, "memcheck").findings
    assert "cudaErrorInvalidValue" in finding.message
    assert finding.line == 0


@pytest.mark.parametrize(("bulk", "space"), [(False, "all"), (True, "global")])
def test_initcheck_follows_shared_memory_unless_bulk_copies_wrote_it(bulk, space):
    argv = sanitizer.argv(Path("/cs"), "initcheck", kernels=(), log=Path("/log"), command=("python",), bulk=bulk)
    assert argv[argv.index("--initcheck-address-space") + 1] == space


def test_a_finding_counts_though_the_tool_hung_after_it():
    text = recorded("oob").split("========= ERROR SUMMARY")[0]
    assert sanitizer_log.parse(text, "memcheck").total is None
    found = reading(text, "memcheck", returncode=-15, ran=False)
    assert isinstance(found, Measured)
    assert found.value >= 1

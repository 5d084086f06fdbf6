from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.adapters import nvcc
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.options import CompileOptions

RECORDINGS = Path(__file__).parents[2] / "recordings/nvcc"


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("syntax-error", CompileError(file="missing_brace.h", line=1, message='expected a ";"')),
        ("missing-header", CompileError(file="nohdr.cu", line=1, message="nope/there.h: No such file or directory")),
        (
            "static-assert",
            CompileError(file="sassert.cu", line=1, message='static assertion failed with "a sentence: that explains"'),
        ),
        ("ptxas-error", CompileError(file="", line=0, message="Unknown modifier '.bogus'")),
        ("spills", None),
        ("setmaxnreg-ignored", None),
    ],
)
def test_first_error(name, error):
    assert nvcc.first_error(recorded(name)) == error


def test_a_numbered_error_of_the_front_end():
    text = 'kernel/a.cuh(12): warning #177-D: unused\nkernel/a.cuh(13): error #20: identifier "x" is undefined\n'
    assert nvcc.first_error(text) == CompileError(file="kernel/a.cuh", line=13, message='identifier "x" is undefined')


def test_a_fatal_message_of_nvcc_itself():
    assert nvcc.first_error("nvcc fatal   : Unknown option '-x9'\n") == CompileError(
        file="", line=0, message="Unknown option '-x9'"
    )


def test_the_linker_names_an_undefined_function():
    error = nvcc.link_error(recorded("undefined-reference"), "libk.so")
    assert error == CompileError(file="libk.so", line=0, message="undefined reference to `nobody'")
    assert nvcc.link_error("", "libk.so") is None


def test_spills_and_stack():
    info = nvcc.parse_resources(recorded("spills"))["k"]
    assert (info.registers, info.stack_bytes, info.spill_store_bytes, info.spill_load_bytes) == (32, 528, 992, 1184)


def test_static_shared_memory():
    assert nvcc.parse_resources(recorded("shared"))["k"].static_shared_bytes == 80000


def test_a_called_function_belongs_to_the_entry_function_before_it():
    infos = nvcc.parse_resources(recorded("called-function"))
    assert set(infos) == {"tiny"}
    text = recorded("called-function").replace(
        "Function properties for _Z6helperf\n    0 bytes stack frame, 0 bytes spill stores",
        "Function properties for _Z6helperf\n    8 bytes stack frame, 4 bytes spill stores",
    )
    info = nvcc.parse_resources(text)["tiny"]
    assert (info.registers, info.stack_bytes, info.spill_store_bytes) == (12, 8, 4)


def test_a_performance_warning_that_names_no_function_concerns_every_entry_function():
    infos = nvcc.parse_resources(recorded("setmaxnreg-ignored"))
    warning = "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."
    assert {symbol: info.warnings for symbol, info in infos.items()} == {"first": (warning,), "second": (warning,)}
    assert (infos["second"].static_shared_bytes, infos["first"].static_shared_bytes) == (256, 0)


def test_a_performance_warning_that_names_an_entry_function_concerns_that_one():
    text = recorded("serialised")
    assert "C7512" in nvcc.parse_resources(text)["kern"].warnings[0]
    both = nvcc.parse_resources(text + "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n")
    assert both["kern"].warnings
    assert not both["other"].warnings


@pytest.mark.parametrize("number", range(7508, 7520))
def test_every_performance_warning_counts_by_its_number(number):
    text = f"ptxas warning : (C{number}) said in new words\nptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    assert nvcc.parse_resources(text)["k"].warnings == (f"(C{number}) said in new words",)


def test_other_warnings_are_not_about_performance():
    text = "ptxas warning : (C7520) else\nptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    assert nvcc.parse_resources(text)["k"].warnings == ()


def test_version():
    assert nvcc.parse_version(recorded("version")) == "13.0.88"
    assert nvcc.parse_version("no such thing") == ""


def test_dependencies():
    text = "/tmp/unit.o : kernel/a.cu \\\n    kernel/b\\ c.cuh \\\n    /opt/include/d.h \n"
    assert nvcc.parse_dependencies(text) == ("kernel/a.cu", "kernel/b c.cuh", "/opt/include/d.h")
    assert nvcc.parse_dependencies("") == ()


def test_one_run_leaves_object_cubin_and_dependencies():
    argv = nvcc.compile_argv(
        Path("/t/nvcc"),
        source="k/a.cu",
        options=FLASHCORE,
        includes=["k/include"],
        target=Path("/w/a.o"),
        dependencies=Path("/w/a.d"),
        keep=Path("/w"),
    )
    assert argv[0] == "/t/nvcc"
    assert argv[1 : 1 + len(OPTIONS)] == OPTIONS
    assert argv[-2:] == ("-c", "k/a.cu")
    assert argv[1 + len(OPTIONS) : 3 + len(OPTIONS)] == ("-I", "k/include")
    assert f"--orig_src_path_name={nvcc.CHECKOUT}/k/a.cu" in argv


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/proc/self/cwd/kernel/a.cu", "kernel/a.cu"),
        ("/home/me/project/kernel/a.cu", "kernel/a.cu"),
        ("/home/me/projects/a.cu", "/home/me/projects/a.cu"),
        ("kernel/a.cu", "kernel/a.cu"),
        ("", ""),
    ],
)
def test_a_name_of_the_compiler_is_relative_in_the_checkout(name, path):
    assert nvcc.path_in_checkout(name, Path("/home/me/project")) == path


FLASHCORE = CompileOptions(architectures=("sm_90a",), fast_math=True)
OPTIONS = (
    "-std=c++17", "-O3", "--use_fast_math", "-Xptxas", "-v,-warn-lmem-usage",
    "-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC",
)  # fmt: skip
"""What recorded evidence was compiled with. Its digests cover exactly this list."""


def test_the_options_of_flashcore_are_those_of_its_recorded_evidence():
    assert nvcc.options_of(FLASHCORE) == OPTIONS


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"architectures": ("sm_120",)}, "-gencode=arch=compute_120,code=sm_120"),
        ({"standard": "c++20"}, "-std=c++20"),
        ({"optimization": 1}, "-v,-warn-lmem-usage,-O1"),
        ({"flush_denormals": True}, "-ftz=true"),
        ({"precise_division": False}, "-prec-div=false"),
        ({"precise_square_root": False}, "-prec-sqrt=false"),
        ({"fused_multiply_add": False}, "-fmad=false"),
        ({"extended_lambda": True}, "--extended-lambda"),
        ({"relaxed_constexpr": True}, "--expt-relaxed-constexpr"),
        ({"hidden_symbols": True}, "-fvisibility=hidden"),
        ({"defines": ("TILE=64",)}, "-DTILE=64"),
    ],
)
def test_each_setting_changes_one_option(changes, option):
    plain = CompileOptions(architectures=("sm_90a",))
    assert option in nvcc.options_of(replace(plain, **changes))
    assert option not in nvcc.options_of(plain)
    assert "--use_fast_math" not in nvcc.options_of(replace(plain, **changes))


TRANSLATED = """# 1 "kernel/a.cu"
#pragma GCC diagnostic push
# 9 "/usr/include/stdio.h" 3
int printf();
# 12
int scanf();
# 4 "kernel/a.cuh"
inline void body(int x) {int volatile ___ = 1;
# 6
::exit(___);}
#if 0
# 4
{ x + 1; }
#endif
# 8 "kernel/a.cuh"
namespace _GLOBAL__N__b14cea55_28_a_cu_0e88b835 { int blocks() { return 2; } }
# 1 "a.cudafe1.stub.c"
static void stub();
"""


MODULE = "_b14cea55_28_a_cu_0e88b835"


def host_code(text=TRANSLATED, module=MODULE):
    return nvcc.parse_host_code(text, lambda name: name.startswith("kernel/"), module)


def test_host_code_of_our_own_files_without_device_bodies():
    code = host_code()
    assert "blocks() { return 2; }" in code
    assert "inline void body(int x)" in code
    for absent in ("printf", "scanf", "x + 1", "b14cea55", "stub", "# 4"):
        assert absent not in code


def test_names_that_only_look_like_the_modules_id_count():
    fast, slow = (TRANSLATED.replace("blocks", f"_GLOBAL__N__00000000_{name}") for name in ("fast", "slow"))
    assert host_code(fast) != host_code(slow)


def test_preprocessed_text_without_markers_and_with_one_blank():
    text = '# 1 "a.cu"\nint  a;\n\n# 9 "b.h" 3 4\n\tint b; const char* s = "# 1  x";\n'
    assert nvcc.strip_preprocessed(text) == 'int a; int b; const char* s = "# 1  x";'
    moved = text.replace("\n\n# 9", "\n# 77").replace("a.cu", "c.cu")
    assert nvcc.strip_preprocessed(moved) == nvcc.strip_preprocessed(text)


PRINTED = """ptxas info    : Compiling entry function 'f' for 'sm_90a'
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""


@pytest.mark.parametrize("line", PRINTED.splitlines()[::2])
def test_a_message_of_the_source_that_looks_like_ptxas_is_refused(line):
    assert nvcc.parse_resources(PRINTED)["f"].registers == 168
    with pytest.raises(ValueError, match="twice"):
        nvcc.parse_resources(f"{PRINTED}{line.replace('168', '8')}\n")

import pytest

from flashcore_ci.model import options
from flashcore_ci.model.options import CompileOptions


def test_every_setting_is_read():
    given = {
        "architectures": ["sm_80", "sm_90a"],
        "standard": "c++20",
        "optimization": 2,
        "fast_math": True,
        "defines": ["TILE=64", "SCALE=-1.5f", "TYPE=cutlass::half_t", "PLAIN"],
        "libraries": ["cublas"],
    }
    read = options.read(given)
    assert (read.architectures, read.standard, read.optimization, read.fast_math) == (("sm_80", "sm_90a"), "c++20", 2, True)
    assert read.defines[1:3] == ("SCALE=-1.5f", "TYPE=cutlass::half_t")
    assert read.libraries == ("cublas",)


def test_fast_math_is_off_unless_it_is_asked_for():
    assert options.read({}).fast_math is False


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        ({"fastmath": True}, 'unknown option "fastmath" \\(did you mean "fast_math"'),
        ({"flags": ["-w"]}, 'unknown option "flags" \\(known: architectures'),
        ({"fast_math": 1}, "fast_math: it is 1, and must be true or false"),
        ({"optimization": True}, "optimization: it is True, and must be a whole number"),
        ({"optimization": 4}, "optimization: 4 is not one of 0, 1, 2, 3"),
        ({"standard": "c++17 -w"}, "is not one of c\\+\\+17, c\\+\\+20"),
        ({"architectures": "sm_80"}, "must be a list of texts"),
        ({"architectures": ["sm_91"]}, "'sm_91' is not known \\(did you mean"),
        ({"libraries": ["cublas", "cublas"]}, "'cublas' is given twice"),
        ({"defines": ["A=1", "A=2"]}, "'A' is given twice"),
        ({"defines": ["-w"]}, "is not NAME or NAME=VALUE"),
        ({"defines": ["A(x)=x"]}, "is not NAME or NAME=VALUE"),
        ({"defines": ["A=__LINE__"]}, "has the name __LINE__, which is reserved"),
        ({"defines": ["__CUDA_ARCH__=800"]}, "is not NAME or NAME=VALUE"),
        ({"defines": ["A" * 200]}, "is not NAME or NAME=VALUE"),
        ({"defines": [f"A{i}" for i in range(51)]}, "it has 51 entries, and 50 are allowed"),
    ],
)
def test_a_mistake_is_named_with_what_is_known(given, mistake):
    with pytest.raises(ValueError, match=mistake):
        options.read(given)


@pytest.mark.parametrize(
    ("names", "device", "chosen"),
    [
        ((), "NVIDIA H200", "sm_90a"),
        ((), "NVIDIA A100-SXM4-80GB", "sm_80"),
        (("sm_90",), "NVIDIA H200", "sm_90"),
        (("sm_90", "sm_90a"), "NVIDIA H200", "sm_90a"),
        (("sm_80",), "NVIDIA GeForce RTX 4090", "sm_80"),
        (("sm_80", "sm_86"), "NVIDIA GeForce RTX 4090", "sm_86"),
        ((), "NVIDIA B200", "sm_100"),
        (("sm_89",), "a GPU of the next generation", "sm_89"),
    ],
)
def test_the_device_chooses_one_architecture(names, device, chosen):
    assert options.for_device(CompileOptions(architectures=names), device).architecture == chosen


@pytest.mark.parametrize(
    ("names", "device", "why"),
    [
        (
            ("sm_90a",),
            "NVIDIA A100-SXM4-80GB",
            "it is built for sm_90a only, and NVIDIA A100-SXM4-80GB has compute capability 8.0",
        ),
        (("sm_90a",), "NVIDIA B200", "it is built for sm_90a only"),
        (("sm_86",), "NVIDIA A100 80GB PCIe", "it is built for sm_86 only"),
        ((), "NVIDIA H201", "the device NVIDIA H201 is not known, so `architectures` must name exactly one. It names none"),
    ],
)
def test_a_device_that_nothing_was_built_for_is_refused(names, device, why):
    with pytest.raises(ValueError, match=why):
        options.for_device(CompileOptions(architectures=names), device)

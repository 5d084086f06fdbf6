"""What ``init`` is given: every word counts, or it is refused with its name."""

from pathlib import Path

import pytest

from flashcore_ci.scaffold import pairs, starting
from flashcore_ci.scaffold.foreign import ForeignError

SOURCE = """
def softmax(x, weight, scale=1.0): return x
async def waits(x): return x
class Softmax: pass
sigmoid = lambda x: x
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("kernel.py", "reference.py"):
        (tmp_path / name).write_text(SOURCE, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def f(:\n", encoding="utf-8")
    return tmp_path


def inputs(root: Path, *given: str, drawer: str | None = None) -> dict[str, object]:
    return starting._inputs(given, ("reference.py", "softmax"), root, drawer)


def test_a_path_with_a_blank_says_what_a_path_may_hold(root: Path) -> None:
    (root / "my kernel.py").write_text(SOURCE, encoding="utf-8")
    with pytest.raises(ForeignError, match=r"'my kernel\.py' is not a plain relative path of letters, digits and \._-"):
        starting.place_of("my kernel.py::softmax", "the kernel", root)


def test_inputs_are_read(root: Path) -> None:
    assert inputs(root, "x=bfloat16:4x8", "weight=8") == {"x": ((4, 8), "bfloat16"), "weight": 8}
    assert inputs(root, "x=float8_e4m3fn:3", "weight=-1.5e3") == {"x": ((3,), "float8_e4m3fn"), "weight": -1500.0}
    assert inputs(root) == {}


def test_a_large_number_keeps_its_digits(root: Path) -> None:
    assert inputs(root, "x=999999999999999999", "weight=-3") == {"x": 999_999_999_999_999_999, "weight": -3}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("y=float16:4",), r"--input y is not an input of softmax \(it has: x, weight\)"),  # it was ignored, and shapes guessed
        (("X=float16:4",), "--input X is not an input"),
        (("scale=2",), "--input scale is not an input"),
        (("x=float16:4", "x=float16:5"), "--input x is given twice"),
        (("x=foo:4",), "--input x: foo is not one of float16, bfloat16"),
        (("x=float16:0x4",), "is not NAME=DTYPE:SIZExSIZE"),  # nothing would be compared
        (("x=float16:4x0",), "is not NAME=DTYPE:SIZExSIZE"),
        (("x=3x2",), "is not NAME=DTYPE:SIZExSIZE"),
        *(
            ((f"x={text}",), "is not NAME=DTYPE:SIZExSIZE") for text in ("1e", ".", "-", "1e999", "--1", "1e1e1")
        ),  # "1e" was a crash
        (("x=float16:-4",), "is not NAME=DTYPE:SIZExSIZE"),
    ],
)
def test_an_input_that_would_be_ignored_is_refused(root: Path, given: tuple[str, ...], why: str) -> None:
    with pytest.raises(ForeignError, match=why):
        inputs(root, *given)


def test_inputs_are_described_once(root: Path) -> None:
    with pytest.raises(ForeignError, match="give one of them"):
        inputs(root, "x=float16:4", drawer="reference.py::draw")


@pytest.mark.parametrize("text", ["::softmax", "./::softmax", "kernel.py", "kernel.py::", "kernel.py::a.b"])
def test_a_place_that_is_none_is_shown_as_it_was_typed(root: Path, text: str) -> None:
    with pytest.raises(ForeignError, match=r"the kernel is .*not FILE::FUNCTION"):
        starting.place_of(text, "the kernel", root)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (("broken.py", "f"), "broken.py is not Python: line 1"),
        (("kernel.py", "waits"), "kernel.py has no function waits made by def"),
        (("kernel.py", "Softmax"), "no function Softmax made by def"),
        (("kernel.py", "sigmoid"), "no function sigmoid made by def"),
    ],
)
def test_a_kernel_that_is_none_is_named_with_its_file(root: Path, kernel: tuple[str, str], why: str) -> None:
    given = {"x": ((4,), "float32"), "weight": ((4,), "float32")}
    pair = pairs.Pair(name="k", origin="k", command="init", kernel=kernel, reference=("reference.py", "softmax"), given=given)
    with pytest.raises(ForeignError, match=why):
        pairs.make(pair, root)

import pytest

from flashcore_ci.scaffold import pairs
from flashcore_ci.scaffold.foreign import ForeignError


def make(root, kernel_text="def k(x, n):\n    return x + n\n", reference_text="def r(x, n):\n    return n + x + 0\n", **changes):
    (root / "k.py").write_text(kernel_text)
    (root / "r.py").write_text(reference_text)
    given = {"x": ((4, 5), "float16"), "n": 2}
    base = {"name": "k", "origin": "k", "command": "init", "kernel": ("k.py", "k"), "reference": ("r.py", "r"), "given": given}
    return pairs.make(pairs.Pair(**{**base, **changes}), root)


def test_sizes_and_numbers_are_params(tmp_path):
    problem = make(tmp_path)
    assert problem.cases[0].params == {"x_0": 4, "x_1": 5, "n": 2}
    assert problem.inputs == {"x": (("x_0", "x_1"), "float16"), "n": (None, "float32")}
    assert problem.files.keys() == {"r.py"}
    assert not problem.candidate.into


def test_further_parameters_of_the_kernel_are_outputs(tmp_path):
    problem = make(tmp_path, kernel_text="def k(x, n, out):\n    out.copy_(x + n)\n")
    assert (problem.candidate.into, problem.candidate.written) == (True, ("out",))


def test_files_that_a_side_imports_belong_to_it(tmp_path):
    for name in ("h.py", "g.py"):
        (tmp_path / name).write_text("VALUE = 1\n")
    problem = make(
        tmp_path,
        kernel_text="import h\ndef k(x, n):\n    return x + n\n",
        reference_text="from g import VALUE\ndef r(x, n):\n    return n + x + 0\n",
    )
    assert problem.candidate.files == ("h.py",)
    assert problem.files.keys() == {"r.py", "g.py"}


def test_a_package_keeps_its_init_files(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/__init__.py").write_text("")
    (tmp_path / "p/h.py").write_text("")
    (tmp_path / "p/k.py").write_text("from . import h\nfrom .h import x\n\ndef k(x, n):\n    return x + n\n")
    assert set(make(tmp_path, kernel=("p/k.py", "k")).candidate.files) == {"p/__init__.py", "p/h.py"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kernel_text": "def k(x):\n    return x\n"}, "takes 1 inputs"),
        ({"kernel_text": "def other(x, n):\n    return x\n"}, "no function k"),
        ({"reference_text": "def r():\n    return 1\n"}, "the reference r takes no inputs"),
        ({"kernel_text": "def k(*all):\n    return all\n"}, "any number of arguments"),
        ({"given": {"x": ((4,), "float16")}}, "the input n"),
        ({"generator": ("r.py", "r")}, "takes 2 values"),
    ],
)
def test_sides_that_do_not_fit_say_why(tmp_path, changes, why):
    with pytest.raises(ForeignError, match=why):
        make(tmp_path, **changes)

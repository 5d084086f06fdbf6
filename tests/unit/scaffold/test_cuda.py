import re

import pytest

from flashcore_ci.scaffold import cuda, pairs
from flashcore_ci.scaffold.foreign import ForeignError

KERNEL = """// extern "C" __global__ void other(int q) {}
extern "C" __global__ void __launch_bounds__(256) add(const float* __restrict__ x, float *out, float a, int n) { }
"""
WORKS = {"1": {"flops": 1.0, "bytes": 2.0, "outputs": {"out0": [[8], "float32"]}}}


def written(root, kernel=KERNEL, reference="def add(x, a: float):\n    return x + a\n"):
    (root / "k.cu").write_text(kernel)
    (root / "r.py").write_text(reference)
    given = {"x": ((8,), "float32"), "a": 1.5}
    pair = pairs.Pair(name="add", origin="k", command="init", kernel=("k.cu", "add"), reference=("r.py", "add"), given=given)
    cuda.write(cuda.make(pair, root), WORKS, pair, root, folder="gates", extra={})
    return (root / "gates/add/subject.py").read_text(), (root / "gates/add/launch.cu").read_text()


def test_pointers_and_numbers_are_matched(tmp_path):
    subject, launcher = written(tmp_path)
    assert "add<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(x, out, a, n);" in launcher
    for line in ("c_void_p(inputs['x']", "c_void_p(outputs['out0']", "c_float(inputs['a'])", "c_int(elements)"):
        assert line in subject
    assert "'binding': ['r.py']" in subject


BLOCK = (
    'namespace a { int b; }\nextern "C" { struct S { int n; };\n__global__ void add(const float* x, float* y, float a) { }\n}\n'
)


@pytest.mark.parametrize(
    ("kernel", "symbols"),
    [
        (KERNEL + 'extern "C" __global__ void twice(float *x) {}', ["add", "twice"]),
        (BLOCK + "__global__ void after(int n) {}", ["add"]),
        (BLOCK.replace("{ }", """{ printf("}"); char c = '}'; }"""), ["add"]),
        ('extern "C" { __global__ void add(int n); }\n' + BLOCK.partition("; };\n")[2].rpartition("}\n")[0], ["add"]),
        (KERNEL + "template <int N> __global__ void more(int n) {}", ["add"]),
    ],
)
def test_every_entry_function_with_a_plain_name_is_named(tmp_path, kernel, symbols):
    subject, _ = written(tmp_path, kernel)
    assert re.findall(r"'symbol': '(\w+)'", subject) == symbols
    assert cuda.mangled(tmp_path, "k.cu") == ("after" if "after" in kernel else "more" if "more" in kernel else "")


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("__global__ void add(const float* x, float* out, float a, int n) {}", 'write extern "C"'),
        (BLOCK.replace("add", "sub") + "namespace b { __global__ void add(int n) {} }", 'write extern "C"'),
        ('extern "C" __global__ void sub(int n) {}', "no entry function add .there are: sub"),
        ('extern "C" __global__ void add(const float* x, float a, int n) {}', "no pointer that is not const for the output out0"),
        ('extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {}', "left for the pointer y"),
        ('extern "C" __global__ void add(float (&x)[3]) {}', "neither a pointer nor a number"),
    ],
)
def test_what_cannot_be_launched_says_why(tmp_path, kernel, why):
    with pytest.raises(ForeignError, match=why):
        written(tmp_path, kernel)
    assert not (tmp_path / "gates").exists()

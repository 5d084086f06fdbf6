"""``[build]`` and ``[ridge]``: how kernels are compiled, and for which device."""

import pytest
from suite_texts import WHOLE

from flashcore_ci.model.options import DEFAULTS, CompileOptions


def with_build(lines):
    assert "[ridge]" in WHOLE
    return WHOLE.replace("[ridge]", f"[build]\n{lines}\n[ridge]", 1)


def with_ridge(lines):
    head, _, rest = WHOLE.partition("[ridge]")
    _, _, tail = rest.partition("[")
    return f"{head}[ridge]\n{lines}\n[{tail}"


def test_a_suite_without_options_has_the_defaults(read):
    assert read(WHOLE).build == DEFAULTS


def test_the_options_of_a_suite(read):
    suite = read(with_build('architectures = ["sm_90a"]\nfast_math = true\ndefines = ["TILE=64"]'))
    assert suite.build == CompileOptions(architectures=("sm_90a",), fast_math=True, defines=("TILE=64",))


def test_all_mistakes_are_named_at_once(problems):
    found = problems(with_build('architecture = ["sm_90a"]\nfast_math = "yes"\ndefines = ["-w"]'))
    assert [line.partition(": build: ")[2].partition(" ")[0] for line in found] == ["unknown", "fast_math:", "defines:"]
    assert '(did you mean "architectures"?)' in found[0]


@pytest.mark.parametrize(("device", "bandwidth"), [("NVIDIA H200", 4.8e12), ("NVIDIA GeForce RTX 4090", 1.008e12)])
def test_the_roofs_of_a_known_device_need_no_numbers(read, device, bandwidth):
    assert read(with_ridge(f'device = "{device}"')).ridge.bandwidth == bandwidth


def test_an_unknown_device_needs_both_numbers(read, problems):
    (found,) = problems(with_ridge('device = "NVIDIA H20O"\nflops = 1e12'))
    assert "ridge: give flops and bandwidth: 'NVIDIA H20O' is not a known device (did you mean \"NVIDIA H200\"?)" in found
    assert read(with_ridge('device = "NVIDIA H20O"\nflops = 1e12\nbandwidth = 1e12')).ridge.flops == 1e12

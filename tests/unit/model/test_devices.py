import pytest

from flashcore_ci.model.devices import ARCHITECTURES, GPUS, KIB, best, most_demanding


def test_the_table_has_every_architecture_and_a_gpu_for_each():
    assert list(ARCHITECTURES) == ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]
    assert {gpu.capability for gpu in GPUS.values()} == {found.capability for found in ARCHITECTURES.values()}


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_possible_peaks_with_a_source(gpu):
    assert gpu.source.startswith("https://")
    assert 10 < gpu.flops / gpu.bandwidth < 500
    assert 10 < gpu.multiprocessors < 200


@pytest.mark.parametrize(("name", "kib"), [("sm_80", 163), ("sm_86", 99), ("sm_90a", 227), ("sm_100", 227), ("sm_120", 99)])
def test_limits_of_a_block(name, kib):
    assert ARCHITECTURES[name].shared_bytes == kib * KIB


TENSOR = {
    "8.0": (2048, 1410),
    "8.6": (512, 1695),
    "8.9": (512, 2520),
    "9.0": (4096, 1830),
    "10.0": (8192, 1860),
    "12.0": (512, 2407),
}
"""Dense fp16 FLOP per cycle of an SM with fp32 accumulation, and a boost clock in MHz."""


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_peaks_follow_from_the_number_of_multiprocessors(gpu):
    flops, mhz = TENSOR[gpu.capability]
    doubled = 2.0 if gpu.name in {"NVIDIA A10", "NVIDIA L4", "NVIDIA L40S"} else 1.0  # not halved as for GeForce
    assert gpu.flops == pytest.approx(gpu.multiprocessors * flops * doubled * mhz * 1e6, rel=0.2)


@pytest.mark.parametrize(
    ("capability", "name"),
    [("8.0", "sm_80"), ("8.7", "sm_86"), ("9.0", "sm_90a"), ("10.3", "sm_100"), ("7.5", None), ("?", None)],
)
def test_the_best_architecture_for_a_capability(capability, name):
    found = best(capability)
    assert (found and found.name) == name


@pytest.mark.parametrize(("names", "name"), [(("sm_80", "sm_86"), "sm_86"), (("sm_90a", "sm_90"), "sm_90a"), ((), None)])
def test_the_architecture_that_the_fewest_gpus_run(names, name):
    found = most_demanding(names)
    assert (found and found.name) == name

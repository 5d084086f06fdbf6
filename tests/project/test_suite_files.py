from pathlib import Path

import pytest

from flashcore_ci.model.suite import Kind
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["hopper", "smoke"])
def test_they_are_valid(name):
    suite = load(ROOT / f"gates/{name}.toml", root=ROOT)
    assert suite.name == name


def problem_of(workload):
    return {name: value for name, value in dict(workload.params).items() if name != "b"}


def test_the_default_suite_times_what_it_must():
    suite = load(ROOT / "gates/hopper.toml", root=ROOT)
    short = {"prefill-fp16-b1-h16-s512-d64", "stream-f32-3mib"}  # under 50 µs: timed in batches
    timed = [workload for workload in suite.workloads if Kind.TIMING in workload.collect and workload.id not in short]
    assert short <= {workload.id for workload in suite.workloads if Kind.COMPARISON in workload.collect}
    shapes = {tuple(dict(w.params)[key] for key in ("dtype", "sq", "d", "causal")) for w in timed if w.subject == "attention"}
    expected = {("fp16", s, d, causal) for s in (512, 2048, 8192) for d in (64, 128, 256) for causal in (False, True)}
    expected |= {("bf16", 2048, d, causal) for d in (64, 128, 256) for causal in (False, True)}
    assert shapes == expected
    dense = [dict(w.params) for w in timed if w.subject == "attention" and "lengths" not in dict(w.params)]
    assert all(params["b"] * params["sq"] == 32768 for params in dense)
    assert all(Kind.CORRECTNESS in w.collect for w in timed)
    profiled = [problem_of(w) for w in suite.workloads if Kind.PROFILE in w.collect]
    assert all(problem_of(w) in profiled for w in timed)  # or a larger batch of it, where the board is at its power cap
    assert all(Kind.PROFILE in w.collect for w in timed if not w.id.startswith("decode-e4m3-"))
    assert {"prefill-fp16-b16-h16-s2048-d64", "prefill-fp16-b4-h16-s8192-d128-causal"} <= {w.id for w in timed}
    (stream,) = (w for w in timed if w.subject == "stream")
    assert 3 * 4 * dict(stream.params)["n"] == pytest.approx(2 << 30, rel=1e-6)


def test_the_smoke_suite_asks_nothing_that_the_default_suite_does_not():
    hopper, smoke = (load(ROOT / f"gates/{name}.toml", root=ROOT) for name in ("hopper", "smoke"))
    workloads = {workload.id: workload.params for workload in hopper.workloads}
    assert all(workloads[workload.id] == workload.params for workload in smoke.workloads)
    assert {gate.id for gate in hopper.gates} - {gate.id for gate in smoke.gates} == {"stability", "no-slower", "no-drift"}

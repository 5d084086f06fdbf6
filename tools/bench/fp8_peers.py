"""Ask other packages' attention in E4M3 what gates/fp8.toml asks ours: which gates pass?

usage: python3 tools/bench/fp8_peers.py --library FILE --out FILE.json [--peer flashcore|fa3|cudnn ...]

Needs a Hopper GPU, PyTorch, and each package in PYTHONPATH: ``flash_attn_interface`` of FlashAttention-3, ``cudnn`` of
nvidia-cudnn-frontend. Inputs, references and limits are those of the suite. cuDNN has one scale per tensor and writes E4M3 on Hopper, so
its inputs are rounded with one scale, and its output again. What a package refuses is in the table by its own words.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernel")]

from flashcore_ci.model.suite import Gate, Kind, Suite, Workload  # noqa: E402 - from the folder above, which is not installed
from flashcore_ci.suite.loader import load  # noqa: E402 - as above
from flashcore_ci.worker import correctness  # noqa: E402 - as above

SUITE, SUBJECT = "gates/fp8.toml", "accuracy"
REPEATS = 3
CUDNN_P_SCALE = 256.0  # as ours: the largest probability becomes 256
RULES: dict[str, Callable[[float, float], bool]] = {"<=": float.__le__, "==": float.__eq__, "<": float.__lt__, ">=": float.__ge__}


def main(argv: list[str]) -> int:
    """Run each peer on each row and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", type=Path, required=True, help="libflashcore_e4m3.so")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="default: all")
    options = parser.parse_args(argv)
    try:
        suite, subject = load(ROOT / SUITE, root=ROOT), _subject(options.library)
        rows = [row for peer in options.peer or PEERS for row in _ask(peer, suite, subject)]
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"fp8_peers: {error}\n")
        return 2
    return 0


def _subject(library: Path) -> Any:
    path = ROOT / "kernel/subjects/e4m3_accuracy.py"
    spec = importlib.util.spec_from_file_location("e4m3_accuracy", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    subject.load(library.resolve(strict=True))
    return subject


def _ask(peer: str, suite: Suite, subject: Any) -> Iterator[dict[str, Any]]:
    """Print and return one row for each gate of each workload."""
    flashcore: Any = importlib.import_module("flashcore")
    ours = flashcore.attention_e4m3, flashcore.attention_e4m3_varlen, subject.quantise
    if peer != "flashcore":
        flashcore.attention_e4m3, flashcore.attention_e4m3_varlen = PEERS[peer]
    if peer == "cudnn":
        subject.quantise = lambda q, k, v, *, whole=True: ours[2](q, k, v, whole=True)  # noqa: ARG005 - the subject names it
    try:
        for workload in suite.workloads:
            if workload.subject != SUBJECT or Kind.CORRECTNESS not in workload.collect:
                continue
            readings, why = _measure(subject, workload)
            for gate in suite.gates:
                if gate.evidence is Kind.CORRECTNESS and (not gate.tags or set(gate.tags) & set(workload.tags)):
                    row = {"peer": peer, "gate": gate.id, "row": workload.id, **_judge(gate, workload, readings), "why": why}
                    print(json.dumps(row), flush=True)
                    yield row
    finally:
        flashcore.attention_e4m3, flashcore.attention_e4m3_varlen, subject.quantise = ours


def _measure(subject: Any, workload: Workload) -> tuple[dict[str, float], str]:
    torch: Any = importlib.import_module("torch")
    work = type("Work", (), {"id": workload.id, "params": dict(workload.params), "seed": workload.seed, "subject": SUBJECT})()
    try:
        outcome = correctness._measure(subject, work, REPEATS, ())  # noqa: SLF001 - what the gate runs
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - a package may raise anything, and its words are the result
        return {}, f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    return {name: float(value) for name, value in outcome["readings"].items()}, ""


def _judge(gate: Gate, workload: Workload, readings: dict[str, float]) -> dict[str, Any]:
    limit = next(limit.value for limit in gate.limits if fnmatch.fnmatchcase(workload.id, limit.on))
    value = readings.get(gate.metric, math.nan)
    return {"value": value, "limit": limit, "passes": RULES[gate.rule.value](value, float(limit))}


def _answer(found: tuple[Any, Any], out: Any, lse: Any) -> Any:
    if lse is not None:
        lse.copy_(found[1])
    return found[0] if out is None else out.copy_(found[0])


def _fa3(q: Any, k: Any, v: Any, *, out: Any, lse: Any, causal: bool = False, **scales: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    tensors = (x.view(torch.float8_e4m3fn) for x in (q, k, v))
    factors = {f"{name}_descale": scales[f"{name}_scale"] for name in "qkv"}
    function = importlib.import_module("flash_attn_interface").flash_attn_func
    return _answer(function(*tensors, causal=causal, return_attn_probs=True, **factors), out, lse)


def _fa3_varlen(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *, causal: bool, out: Any, lse: Any, **scales: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    tensors = (x.view(torch.float8_e4m3fn) for x in (q, k, v))
    longest = [int((starts[1:] - starts[:-1]).max()) for starts in (starts_q, starts_k)]
    factors = {f"{name}_descale": scales[f"{name}_scale"] for name in "qkv"}
    function = importlib.import_module("flash_attn_interface").flash_attn_varlen_func
    return _answer(function(*tensors, starts_q, starts_k, *longest, causal=causal, return_attn_probs=True, **factors), out, lse)


def _cudnn(q: Any, k: Any, v: Any, *, out: Any, lse: Any, causal: bool = False, **scales: Any) -> Any:
    """Attend with cuDNN's graph ``sdpa_fp8``. Its output cannot exceed the largest value, so it has the scale of the values."""
    torch: Any = importlib.import_module("torch")
    cudnn, group = importlib.import_module("cudnn"), q.shape[2] // k.shape[2]
    tensors = [x.view(torch.float8_e4m3fn) for x in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2))]
    q_scale, k_scale, v_scale = (scales[f"{name}_scale"][:1, :1] for name in "qkv")
    p_scale = torch.full_like(q_scale, CUDNN_P_SCALE)
    factors = [x.reshape(1, 1, 1, 1).contiguous() for x in (q_scale, k_scale, v_scale, 1 / p_scale, p_scale, 1 / v_scale)]
    graph = cudnn.pygraph(
        io_data_type=cudnn.data_type.FP8_E4M3,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )
    inputs = [(graph.tensor_like(x), x) for x in (*(x.transpose(1, 2) for x in tensors), *factors)]
    written, sums, largest_p, largest_o = graph.sdpa_fp8(
        *(tensor for tensor, _ in inputs),
        generate_stats=True,
        attn_scale=q.shape[-1] ** -0.5,
        use_causal_mask=causal,
        name="sdpa",
    )
    result = torch.empty_like(tensors[0])
    stats = torch.empty((*result.transpose(1, 2).shape[:3], 1), dtype=torch.float32, device=q.device)
    extremes = [torch.empty((1, 1, 1, 1), dtype=torch.float32, device=q.device) for _ in range(2)]
    pairs = [(written, result.transpose(1, 2)), (sums, stats), *zip((largest_p, largest_o), extremes, strict=True)]
    for tensor, x in pairs:
        tensor.set_output(True).set_dim(list(x.shape)).set_stride(list(x.stride()))
        tensor.set_data_type(cudnn.data_type.FP8_E4M3 if x.dtype == torch.float8_e4m3fn else cudnn.data_type.FLOAT)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    graph.execute(dict([*inputs, *pairs]), torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device=q.device))
    return _answer((result.float() * v_scale.reshape(()), stats[..., 0]), out, lse)


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("packed rows of E4M3 are not called here")


PEERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "flashcore": (_refuse, _refuse),
    "fa3": (_fa3, _fa3_varlen),
    "cudnn": (_cudnn, _refuse),
}
"""Name to what takes the place of our two functions. Ours stay."""

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

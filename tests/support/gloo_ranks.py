"""Two ranks on the CPU, over gloo: what each scheme computes. Run with an interpreter that has torch: it prints JSON."""

from __future__ import annotations

import importlib.util
import json
import math
import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from flashcore_ci.worker import connection  # noqa: E402 - found by the line above
from flashcore_ci.worker.group import Message, Playback, RankSubject  # noqa: E402
from flashcore_ci.worker.job import Job  # noqa: E402

PARAMS = {"dtype": "fp16", "b": 1, "h": 4, "hkv": 2, "sq": 10, "sk": 12, "d": 8, "gpus": 2}


def load(defect: str) -> Any:
    """Return the subject, or one of its defects, with attention by a formula."""
    file = ROOT / ("kernel/defects/multi_gpu.py" if defect else "kernel/subjects/multi_gpu.py")
    spec = importlib.util.spec_from_file_location("subject", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sound = module.sound if defect else module
    sound.attention.DEVICE = "cpu"
    sound.attend = attend
    return module


def attend(inputs: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Attend by the formula, in the types of FlashCore."""
    import torch

    q = inputs["q"].double().transpose(1, 2)
    k, v = (tensor.double().transpose(1, 2).repeat_interleave(q.shape[1] // tensor.shape[2], 1) for tensor in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    out = torch.softmax(scores, -1) @ v
    return out.transpose(1, 2).to(inputs["q"].dtype).contiguous(), torch.logsumexp(scores, -1).float()


def be_rank(rank: int, folder: str, answers: Any, cases: list[str]) -> None:
    """Run one rank on all cases, and put its answers."""
    options = {"rank": rank, "gpus": 2, "rank_seconds": 20.0}
    job = Job(kind="correctness", nonce="", digest="", root=ROOT, folder=Path(folder), subjects=(), workloads=(), options=options)
    connection.connect(job, "gloo")
    answers.put((rank, {case: try_case(job, rank, *case.partition(":")[::2]) for case in cases}))


def try_case(job: Job, rank: int, scheme: str, defect: str) -> dict[str, Any]:
    """Return what this rank finds."""
    import torch

    params = {**PARAMS, "scheme": scheme, **({"defect": defect} if defect else {})}
    module = load(defect)
    subject = connection.of_rank(job, module)
    inputs = subject.inputs(params, 1)
    outputs = subject.outputs(inputs)
    sent = subject.group.listen(lambda: subject.run(inputs, outputs))
    exact = subject.reference(
        {name: value.double() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    )
    whole = subject.join(inputs)
    alone = module.outputs(whole)
    module.run(whole, alone)
    one = subject.part(alone)
    played = Playback(rank, 2, [Message(kind=m.kind, sent=m.sent.clone(), received=m.received.clone()) for m in sent])
    again = {name: torch.empty_like(tensor) for name, tensor in outputs.items()}
    RankSubject(module, played, b"", b"").run({**inputs, "group": played}, again)
    played.require_recorded()
    others = [subject.group.collect(tensor) for tensor in outputs.values()]
    return {
        "error": max(float((outputs[name].double() - exact[name]).abs().max()) for name in outputs),
        "same_as_one": all(torch.equal(outputs[name], one[name]) for name in outputs),
        "same_on_all": all(torch.equal(*pair) for pair in others),
        "same_played": all(torch.equal(again[name], outputs[name]) for name in outputs),
        "traffic": sum(message.bytes for message in sent) / module.traffic(params),
        "other_inputs": not torch.equal(*subject.group.collect(inputs["q"])),
        "worst": subject.group.worst([float(rank), math.nan]),
    }


def main(cases: list[str]) -> None:
    """Print what each rank found, by case."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=be_rank, args=(rank, folder, answers, cases)) for rank in range(2)]
        for process in ranks:
            process.start()
        found = dict(answers.get(timeout=180) for _ in ranks)
        for process in ranks:
            process.join()
    sys.stdout.write(json.dumps({case: [found[rank][case] for rank in range(2)] for case in cases}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write the files of a subject as text: definition, candidate and suite."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from flashcore_ci.scaffold.foreign import Problem

TEMPLATES = Path(__file__).with_name("templates")
WIDTH = 120
DEFAULT_TOLERANCE = 1e-2
NAMED = "The smallest that the problem's workloads name."


def params_key(params: Mapping[str, Any]) -> str:
    """Name a case as the generated definition does."""
    return json.dumps(dict(params), sort_keys=True)


def definition(problem: Problem, works: Mapping[str, Any], *, folder: str, build: str = "") -> str:
    """Write the trusted side. ``works``: what the estimate says of each case (empty before it). ``build``: if not None's."""
    cases = {params_key(case.params): {"axes": case.axes, **_work(works.get(case.id))} for case in problem.cases}
    check = "    _refuse_changed(root)\n" if problem.files else ""
    head = {"name": problem.name, "command": problem.command, "origin": problem.origin}
    build = build or fill("build_none", check=check)
    parts = [fill("definition", **head, cases=pformat(cases, width=WIDTH, sort_dicts=False), build=build)]
    if not problem.inputs:
        parts.append(fill("model"))
    else:
        names = {"inputs": tuple(problem.inputs), "outputs": problem.outputs, "entry": problem.entry}
        parts.append(fill("function", **names, draw=_draw(problem)))
    if problem.files:
        files = pformat(problem.files, width=WIDTH)
        parts += [fill("import"), fill("file", files=files, depth=depth_of(folder), names=problem.modules)]
    else:
        parts.append(fill("embedded", source=literal(problem.source)))
    return "".join(parts)


def candidate(problem: Problem, works: Mapping[str, Any], *, folder: str) -> str:
    """Write the untrusted side."""
    chosen = problem.candidate
    head = {"name": problem.name, "command": problem.command, "origin": problem.origin, "depth": depth_of(folder)}
    parts = [fill("candidate", **head)]
    if chosen.file:
        parts.append(fill("import"))
    if chosen.kind == "model":
        init = next((work["init"] for work in works.values()), "[]")
        return "".join((*parts, fill("given_model", file=chosen.file, init=init, depth=head["depth"])))
    if chosen.kind == "compiled" and not problem.inputs:
        return "".join((*parts, fill("compiled_model"), fill("source", source=literal(problem.source))))
    if chosen.kind == "compiled":
        parts += [fill("compiled_function", entry=problem.entry), fill("source", source=literal(problem.source))]
    elif chosen.kind == "function":
        parts.append(fill("given_function", file=chosen.file, entry=chosen.entry, depth=head["depth"]))
    else:
        sources = "{\n" + "".join(f"    {name!r}: {literal(text)},\n" for name, text in chosen.sources.items()) + "}"
        parts.append(fill("extension", entry=chosen.entry, options=pformat(chosen.options), sources=sources))
    parts.append(fill("run_into" if chosen.into else "run_function", inputs=tuple(problem.inputs)))
    return "".join(parts)


def suite(problem: Problem, files: Mapping[str, str], candidates: tuple[str, ...]) -> str:
    """Write the suite. ``files``: the path of the definition by ``definition``."""
    subject = [f"name = {_toml(problem.name)}", f"file = {_toml(files['definition'])}"]
    kinds = ["correctness", "timing", "comparison"] if candidates else ["correctness", "sanitizer", "timing", "comparison"]
    if candidates:
        subject += ['trust = "none"', f"candidate = [{', '.join(map(_toml, candidates))}]"]
    workloads = []
    for case in problem.cases:
        lines = ["", "[[workload]]", f"id = {_toml(f'{problem.name}-{case.id}')}", f"subject = {_toml(problem.name)}"]
        lines.append(f"collect = {_toml(kinds)}")
        if case.params:
            lines.append(f"params = {{ {', '.join(f'{name} = {_toml(value)}' for name, value in case.params.items())} }}")
        workloads.append("\n".join(lines) + "\n")
    given = problem.tolerance is not None
    own = fill(
        "suite",
        command=problem.command,
        origin=problem.origin,
        name=problem.name,
        subject="\n".join(subject),
        workloads="".join(workloads),
        tolerance=problem.tolerance if given else DEFAULT_TOLERANCE,
        tolerance_why=NAMED if given else "A guess: review it, then make it blocking.",
    )
    return own if candidates else own + fill("suite_cuda")


def literal(text: str) -> str:
    """Write ``text`` as a literal that every reader of Python ends at the same place."""
    kept = re.sub(r"'(?=')|'\Z", r"\\'", text.replace("\\", "\\\\")).replace("\r", "\\r")
    kept = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in kept)
    written = f"'''\\\n{kept}'''"
    if ast.literal_eval(written) != text:
        raise ValueError("a source cannot be written as a literal")
    return written


def depth_of(folder: str) -> int:
    """Count the folders from a file in ``folder`` up to the checkout's root."""
    return len(Path(folder).parts)


def _work(work: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: work[key] for key in ("flops", "bytes", "outputs")} if work else {"flops": 0.0, "bytes": 0.0, "outputs": {}}


def _draw(problem: Problem) -> str:
    """Write the lines that draw the inputs."""
    scalars = {name for name, (shape, _) in problem.inputs.items() if shape is None}
    lines = [f"    drawn = {{name: params[name] for name in {tuple(sorted(scalars))!r}}}"]
    if problem.generator and problem.files:
        call = f"_code()[{problem.generator!r}]({'seed' if problem.is_seeded else ''})"
        lines.append(f"    with torch.device(DEVICE):\n        made = {call}")
        lines.append("    drawn.update(made if isinstance(made, dict) else zip(INPUTS, made, strict=True))")
        lines.append("    drawn = {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in drawn.items()}")
    elif problem.generator:
        lines.append(f"    drawn.update(_code()[{problem.generator!r}]({{**axes, **drawn}}, torch.device(DEVICE)))")
    else:
        for name, (shape, dtype) in problem.inputs.items():
            if shape is not None:
                sizes = ", ".join(f"axes[{axis!r}]" for axis in shape)
                lines.append(f"    drawn[{name!r}] = _draw({name!r}, [{sizes}], {dtype!r})")
    return "\n".join(lines) + "\n"


def fill(template: str, /, **values: Any) -> str:
    """Fill in a template."""
    return (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8").format(**values)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)

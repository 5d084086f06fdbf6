"""Make C++ of preprocessed device code: calls of the emulator in place of ``asm`` and ``__shared__``."""

from __future__ import annotations

import re

_ASM = re.compile(r"\basm\b(?:\s*(?:volatile|__volatile__))?\s*\(")
_SHARED = re.compile(
    r"(extern\s+)?__shared__\s+(?:alignas\s*\((?:[^()]|\([^()]*\))*\)\s*)?([\w:<>, ]+?)\s*\b(\w+)\s*((?:\[[^\];]*\]\s*)*);"
)
_MARKER = re.compile(r'^# (\d+) "([^"]*)".*$', re.MULTILINE)
_OPERAND = re.compile(r'\s*"([=+]?)(\w)"\s*\((.*)\)\s*$', re.DOTALL)


class _Places:
    """Say which line of which file a position came from."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._markers = [(m.end() + 1, int(m[1]), m[2]) for m in _MARKER.finditer(text)]
        self._index = 0

    def find(self, at: int) -> str:
        while self._index + 1 < len(self._markers) and self._markers[self._index + 1][0] <= at:
            self._index += 1
        if not self._markers:
            return "?"
        begin, line, name = self._markers[self._index]
        return f"{'/'.join(name.split('/')[-2:])}:{line + self._text.count(chr(10), begin, at)}"


def _skip_string(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside of brackets and strings."""
    parts, depth, first, at = [], 0, 0, 0
    while at < len(text):
        c = text[at]
        if c in "\"'":
            at = _skip_string(text, at)
            continue
        depth += (c in "([{") - (c in ")]}")
        if c == separator and depth == 0:
            parts.append(text[first:at])
            first = at + 1
        at += 1
    return [*parts, text[first:]]


def _end_of_parentheses(text: str, at: int) -> int:
    depth = 1
    while depth > 0:
        if text[at] in "\"'":
            at = _skip_string(text, at)
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return at


def _operand(text: str) -> str:
    found = _OPERAND.match(text)
    if found is None:
        raise ValueError(f"cannot read the asm operand {text.strip()!r}")
    direction, constraint, expression = found.groups()
    if direction:
        reads = "true" if direction == "+" else "false"
        return f"::emulator::output<'{constraint}', {reads}>({expression})"
    return f"::emulator::input<'{constraint}'>({expression})"


def _statement(body: str, place: str) -> str:
    sections = _split(re.sub(r"^#.*$", "", body, flags=re.MULTILINE), ":")
    text = " ".join(sections[0].split())
    operands = [_operand(part) for section in sections[1:3] for part in _split(section, ",") if part.strip()]
    if not text.replace('"', "").strip():
        return "do { } while (false)"
    listed = f"const ::emulator::Operand emulator_operands[] = {{{', '.join(operands)}}};" if operands else ""
    passed = "emulator_operands" if operands else "nullptr"
    site = f'static ::emulator::Site emulator_site{{{sections[0].strip()}, "{place}"}};'
    return f"do {{ {site} {listed} ::emulator::execute(emulator_site, {passed}, {len(operands)}); }} while (false)"


def _shared(found: re.Match[str], place: str) -> str:
    is_dynamic, kind, name, extents = found.groups()
    if is_dynamic:
        return f"{kind}* const {name} = static_cast<{kind}*>(::emulator::dynamic_shared());"
    site = f'static const ::emulator::SharedSite emulator_{name}{{"{place}"}};'
    return f"{site} using emulator_type_{name} = {kind}{extents}; auto& {name} = ::emulator::static_shared<emulator_type_{name}>(emulator_{name});"


def rewrite(text: str) -> str:
    """Return the text with every asm statement and every shared variable as C++."""
    places = _Places(text)
    parts, first = [], 0
    for found in _ASM.finditer(text):
        end = _end_of_parentheses(text, found.end())
        body = text[found.end() : end - 1]
        statement = _statement(body, places.find(found.start()))
        parts += [text[first : found.start()], statement, "\n" * body.count("\n")]
        first = end
    text = "".join([*parts, text[first:]])
    places = _Places(text)
    return _SHARED.sub(lambda found: _shared(found, places.find(found.start())), text)

"""List what compute-sanitizer can say: the sentences in its binaries, and those that the committed table lacks.

``python tools/study/sanitizer_sentences.py FOLDER``, where FOLDER holds ``compute-sanitizer`` and its libraries. A sentence is a
line of at least three words in read-only data, names of C++ apart. The compiler also stores parts of sentences in pieces of 16 bytes, which appear
as one garbled line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

TABLE = Path(__file__).parents[2] / "tests/recordings/sanitizer/sentences.tsv"
BINARIES = ("compute-sanitizer", "libsanitizer-collection.so")
"""The program that prints, and the library that watches the target and sends it what to print."""
CLASSES = ("finding", "lost-track", "stopped", "options", "internal")
_TEXT = re.compile(rb"[\t\n\x20-\x7e]{5,}")
_WORD = re.compile(r"[(\"'<]?[A-Za-z][\w':/-]+[)\"'>,.:;]*")
_NAMES = re.compile(r"\b(?:boost|std|google|absl|__cxx11)::|^_Z")
MIN_WORDS = 3


def sentences(folder: Path) -> set[str]:
    """Extract the sentences of this installation."""
    return {sentence for name in BINARIES for sentence in _sentences_in(folder / name)}


def _sentences_in(file: Path) -> set[str]:
    with file.open("rb") as stream:
        data = ELFFile(stream).get_section_by_name(".rodata").data()
    lines = {line.strip() for text in _TEXT.findall(data) for line in text.decode("ascii").split("\n")}
    return {" ".join(line.split()) for line in lines if _is_sentence(line)}


def _is_sentence(line: str) -> bool:
    return not _NAMES.search(line) and sum(_WORD.fullmatch(word) is not None for word in line.split()) >= MIN_WORDS


def table() -> dict[str, str]:
    """Read the class of each sentence."""
    rows = [line.split("\t") for line in TABLE.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {sentence: kind for kind, sentence in rows}


def main() -> int:
    """Print the sentences without a class. Fail if there are any."""
    missing = sorted(sentences(Path(sys.argv[1])) - table().keys())
    print(*missing, sep="\n")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())

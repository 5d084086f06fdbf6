"""Write docs/exit-codes.md and docs/reasons.md from the model, so that both always agree."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.errors import MEANING, ExitCode, FlashcoreError
from flashcore_ci.report.explain import verdict_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
GENERATED = "<!-- Written by tools/docs/generate_docs.py (`make generate`); do not edit. -->"


def exit_codes() -> str:
    """The table of exit codes, with the errors that lead to each."""
    errors = {code: [error.__name__ for error in _errors() if error.exit_code is code] for code in ExitCode}
    rows = [f"| {int(code)} | {MEANING[code]} | {', '.join(f'`{name}`' for name in errors[code])} |" for code in ExitCode]
    return "\n".join(
        [
            "# Exit codes",
            "",
            GENERATED,
            "",
            "Exit codes 0, 10 and 11 are verdicts. A kernel that does not compile, hangs, is wrong or slow gives a verdict.",
            "Exit codes 1 to 4 are errors: something kept the tool from judging. The tool writes `junit.xml`, `report.json` and",
            "`summary.md` in both cases. An error is never green in them.",
            "",
            "| code | meaning | raised as |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def reasons() -> str:
    """The table of reason codes."""
    return "\n".join(
        [
            "# Reason codes",
            "",
            GENERATED,
            "",
            "Every verdict has one of these codes. FAIL means that the kernel is at fault. INCONCLUSIVE means that there is no",
            "reading, so nothing is known about the kernel. Both block if the gate blocks. `flashcore-ci explain CODE` shows one row.",
            "",
            "| code | verdict | next step |",
            "| --- | --- | --- |",
            *(f"| `{code}` | {verdict_of(code)} | {NEXT_STEP.get(code, '')} |" for code in Code),
            "",
        ]
    )


def _errors() -> list[type[FlashcoreError]]:
    return sorted(FlashcoreError.__subclasses__(), key=lambda error: error.__name__)


PAGES = {"exit-codes.md": exit_codes, "reasons.md": reasons}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()

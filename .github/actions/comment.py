"""Put a report under a pull request, in the place of the one before. Standard library only.

The tool of the protected branch wrote the text from signed evidence. It is still data, of bounded size, from a plain file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

from github_api import RefusedError, ask, pages

MARKER = re.compile(r"<!-- flashcore-ci[^<>\n]*-->")
AUTHOR = "github-actions[bot]"
MOST_CHARACTERS = 65_536
"""What GitHub takes of a comment."""
CUT = "\n\n*The rest did not fit into a comment: see the step summary.*\n"
RESULTS = ("success", "failure", "cancelled", "skipped")


def main(environ: Mapping[str, str]) -> int:
    """Return the exit status of the step."""
    try:
        status = required(environ["COMMENT_REQUIRED"], environ.get("COMMENT_ATTEMPTS", ""))
        text = body(Path(environ["COMMENT_FILE"]), status)
        number = int(environ["COMMENT_NUMBER"])
        comments = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/issues"
        token = environ["GH_TOKEN"]
        found = earlier(f"{comments}/{number}/comments", marker(text), token)
        place = ("PATCH", f"{comments}/comments/{found}") if found else ("POST", f"{comments}/{number}/comments")
        done = ask(*place, token, {"body": text})
    except (RefusedError, OSError, HTTPException, KeyError, ValueError) as error:
        print(f"::error title=flashcore-ci::no comment was written: {type(error).__name__}: {error}".replace("\n", " "))
        return 1
    print(f"{'updated' if found else 'wrote'} {done.get('html_url', 'the comment')}")
    return 0


def required(result: str, attempts: str) -> str:
    """Say what the required check says: the report below it is by the suite of the protected branch."""
    if result not in RESULTS or not re.fullmatch(r"[0-9]{0,9}", attempts):
        raise RefusedError("the result of the required check is unknown")
    count = f", attempt {attempts} of this commit" if attempts else ""
    return f"**Check `required`: {result}{count}.** Below is the signed evidence, judged by the suite of the protected branch."


def body(file: Path, status: str) -> str:
    """Return the comment's text, cut to what GitHub takes. RefusedError when it is not a plain file or has no marker."""
    if file.is_symlink() or not file.is_file():
        raise RefusedError(f"{file} is not a plain file")
    with file.open("rb") as opened:
        text = opened.read(4 * MOST_CHARACTERS + 1).decode("utf-8", errors="replace")
    text = f"{marker(text)}\n{status}\n\n{text.partition(chr(10))[2]}"
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - len(CUT)] + CUT


def marker(text: str) -> str:
    """Return the marker that the first line of the text is."""
    first = text.partition("\n")[0].strip()
    if not MARKER.fullmatch(first):
        raise RefusedError("the first line is not the marker of flashcore-ci")
    return first


def earlier(url: str, mark: str, token: str) -> int | None:
    """Find the comment that a workflow wrote with this marker. A comment of a person or of another app is left alone."""
    ours = (c["id"] for c in pages(url, token) if c["user"]["login"] == AUTHOR and c["body"].lstrip().startswith(mark))
    found = next(ours, None)
    return None if found is None else int(found)


if __name__ == "__main__":
    sys.exit(main(os.environ))

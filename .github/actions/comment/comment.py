"""Put a report under a pull request, in the place of the one before. Standard library only.

The text was written by a job that ran the pull request's code: it is data, of bounded size, from a plain file.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MARKER = re.compile(r"<!-- flashcore-ci[^<>\n]*-->")
MOST_CHARACTERS = 65_536
"""What GitHub takes of a comment."""
CUT = "\n\n*The rest did not fit into a comment: see the step summary.*\n"
A_PAGE = 100
MOST_PAGES = 50
SECONDS = 30


class RefusedError(Exception):
    """Why nothing was posted."""


def main(environ: Mapping[str, str]) -> int:
    """The exit status of the step."""
    try:
        text = body(Path(environ["COMMENT_FILE"]))
        number = int(environ["COMMENT_NUMBER"])
        comments = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/issues"
        token = environ["GH_TOKEN"]
        found = earlier(f"{comments}/{number}/comments", marker(text), token)
        place = ("PATCH", f"{comments}/comments/{found}") if found else ("POST", f"{comments}/{number}/comments")
        done = ask(*place, token, {"body": text})
    except (RefusedError, urllib.error.URLError, KeyError, ValueError) as error:
        print(f"::error title=flashcore-ci::no comment was written: {type(error).__name__}: {error}".replace("\n", " "))
        return 1
    print(f"{'updated' if found else 'wrote'} {done.get('html_url', 'the comment')}")
    return 0


def body(file: Path) -> str:
    """The comment's text, cut to what GitHub takes. RefusedError when it is not a plain file or has no marker."""
    if file.is_symlink() or not file.is_file():
        raise RefusedError(f"{file} is not a plain file")
    with file.open("rb") as opened:
        text = opened.read(4 * MOST_CHARACTERS + 1).decode("utf-8", errors="replace")
    marker(text)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - len(CUT)] + CUT


def marker(text: str) -> str:
    """The marker that the first line of the text is."""
    first = text.partition("\n")[0].strip()
    if not MARKER.fullmatch(first):
        raise RefusedError("the first line is not the marker of flashcore-ci")
    return first


def earlier(url: str, mark: str, token: str) -> int | None:
    """The comment that a workflow wrote with this marker; another person's comment that quotes it is left alone."""
    mine = (c["id"] for c in _pages(url, token) if c["user"]["type"] == "Bot" and c["body"].lstrip().startswith(mark))
    found = next(mine, None)
    return None if found is None else int(found)


def ask(method: str, url: str, token: str, content: dict[str, str] | None = None) -> Any:
    """GitHub's answer."""
    if not url.startswith(("https://", "http://127.0.0.1:")):
        raise RefusedError(f"{url} is not GitHub")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - the scheme is checked above
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - as above
        return json.load(answer)


def _pages(url: str, token: str) -> Iterator[Any]:
    for page in range(1, MOST_PAGES + 1):
        comments = ask("GET", f"{url}?per_page={A_PAGE}&page={page}", token)
        yield from comments
        if len(comments) < A_PAGE:
            return


if __name__ == "__main__":
    sys.exit(main(os.environ))

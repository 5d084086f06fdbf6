"""Ask GitHub's API. Standard library only."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

PAGE_SIZE = 100
SECONDS = 30


class RefusedError(Exception):
    """Why the step fails."""


def ask(method: str, url: str, token: str, content: dict[str, Any] | None = None) -> Any:
    """Return GitHub's answer. The token goes to GitHub only."""
    if not url.startswith(("https://", "http://127.0.0.1:")):
        raise RefusedError(f"{url} is not GitHub")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - the scheme is checked above
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - as above
        text = answer.read()
    return json.loads(text) if text else None


def pages(url: str, token: str, *, key: str = "", most: int = 50) -> Iterator[Any]:
    """Yield the items of a list, or of its ``key``. RefusedError if there are more than ``most`` pages."""
    joint = "&" if "?" in url else "?"
    for page in range(1, most + 1):
        answer = ask("GET", f"{url}{joint}per_page={PAGE_SIZE}&page={page}", token)
        items = answer[key] if key else answer
        yield from items
        if len(items) < PAGE_SIZE:
            return
    raise RefusedError(f"{url} has more than {most * PAGE_SIZE} entries")

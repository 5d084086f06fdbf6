"""Give a server's calls to FlashCore: the server's methods stay as they are, and only the function that they call is another one."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flashcore.doors import functions
from flashcore.doors.choice import attempt


def prefer(door: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls FlashCore's of this name, and ``original`` with what no kernel of FlashCore serves."""
    own = getattr(functions, name)

    def call(*arguments: Any, **options: Any) -> Any:
        return attempt(door, lambda: own(*arguments, **options), lambda: original(*arguments, **options), f"{door}'s kernel")

    return call


def replace_calls(door: str, method: Any, *names: str) -> Any:
    """Return a copy of the method in which these globals are FlashCore's functions. ImportError if it does not read one of them.

    So what surrounds the call, such as the layout of the cache, stays that of the installed version. Nothing of the server changes.
    """
    read = {i.argval for i in dis.get_instructions(method) if i.opname == "LOAD_GLOBAL"}
    for name in names:
        if name not in read or name not in method.__globals__:
            raise ImportError(
                f"{method.__qualname__}: this version of {door} does not call {name} there, so FlashCore cannot serve it"
            )
    own = {name: prefer(door, name, method.__globals__[name]) for name in names}
    copy = FunctionType(
        method.__code__, {**method.__globals__, **own}, method.__name__, method.__defaults__, method.__closure__
    )  # fmt: skip
    copy.__kwdefaults__, copy.__qualname__ = method.__kwdefaults__, method.__qualname__
    return copy

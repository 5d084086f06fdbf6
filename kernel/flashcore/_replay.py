"""Let a C++ kernel repeat the launches of an operator, so that a call costs no time in Python.

``libflashcore_torch.so`` is optional. Without it the operators run in Python, with the same results.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flashcore import _launch, _library, _tensors

FUNCTIONAL, WRITES, FLASH3 = range(3)
"""What an operator returns: see kernel/src/torch_ops.cpp."""

NAMES = {"lengths": "seqused_k", "q_scale": "q_descale", "k_scale": "k_descale", "v_scale": "v_descale"}
"""Tensors whose name in a launch differs from the operator's."""

LETTERS = {"Tensor": "T", "Tensor?": "U", "int": "i", "int?": "I", "float": "f", "float?": "F", "bool": "b", "bool?": "B"}
MAX_RANK = 4
KEY = "CUDA"
"""The key of the dispatcher. Tests without a GPU use CPU."""

_lent: dict[tuple[int, int, int], _tensors.Workspace] = {}
"""Workspaces that replayed launches use, by address of the entry function, device and stream."""

_superseded: list[_tensors.Workspace] = []
"""Smaller ones that another thread may be about to use. They double in size, so few are kept."""


class Recording(ctypes.Structure):
    """Mirror of FlashcoreRecording in kernel/src/torch_ops.cpp."""

    _fields_ = [
        ("launch", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("word_count", ctypes.c_int64),
        ("addresses", ctypes.c_void_p),
        ("address_count", ctypes.c_int64),
        ("out_word", ctypes.c_int64),
        ("lse_word", ctypes.c_int64),
        ("out_rank", ctypes.c_int64),
        ("out_sizes", ctypes.c_int64 * MAX_RANK),
        ("lse_rank", ctypes.c_int64),
        ("lse_sizes", ctypes.c_int64 * MAX_RANK),
        ("out_is_bfloat16", ctypes.c_int64),
        ("workspace_word", ctypes.c_int64),
        ("workspace_bytes", ctypes.c_int64),
        ("stream_word", ctypes.c_int64),
        ("device", ctypes.c_int64),
    ]


@functools.cache
def find() -> ctypes.CDLL | None:
    """Load the library, or return None if there is none."""
    library = _library.find_replay()
    if library is not None:
        library.flashcore_ops_bind.argtypes, library.flashcore_ops_bind.restype = [ctypes.c_void_p], ctypes.c_char_p
        torch_library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib/libtorch.so"))
        missing = library.flashcore_ops_bind(torch_library._handle)  # noqa: SLF001 - what dlopen returned
        if missing is not None:
            raise _library.LibraryError(f"PyTorch {torch.__version__} has no {missing.decode()}. Install PyTorch 2.11 or newer")
        library.flashcore_ops_register.argtypes = [*[ctypes.c_char_p] * 4, ctypes.c_int, ctypes.c_int64]
        library.flashcore_ops_keep.argtypes = [ctypes.c_void_p]
        library.flashcore_ops_lend.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        library.flashcore_ops_lend.restype = None
        library.flashcore_ops_fail.argtypes = [ctypes.c_char_p]
        library.flashcore_ops_raise.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        library.flashcore_ops_fail.restype = library.flashcore_ops_raise.restype = library.flashcore_ops_clear.restype = None
        _library.on_load(library.flashcore_ops_clear)
    return library


def parse(schema: str) -> tuple[list[str], str]:
    """Return the names of a schema's arguments, and a letter per argument."""
    arguments = [part.split("=")[0].split() for part in schema[1 : schema.index(") ->")].split(",")]
    names, types = [words[-1] for words in arguments], [words[0] for words in arguments]
    plain = [kind.split("(")[0] + ("?" if kind.endswith("?") else "") if "(" in kind else kind for kind in types]
    return names, "".join(LETTERS[kind] for kind in plain)


def implement(library: Any, name: str, schema: str, kernel: Callable[..., Any], returns: int) -> None:
    """Register the kernel of an operator for CUDA: in C++ if it can be, in Python otherwise."""
    replay = find()
    if replay is None:
        library.impl(name, kernel, KEY)
        return
    names, letters = parse(schema)
    fallback = f"_{name}_in_python"
    library.define(fallback + schema)
    library.impl(fallback, _recorded(kernel, names, replay, returns), KEY)
    out = names.index("out") if "out" in names else -1
    if replay.flashcore_ops_register(*(text.encode() for text in (library.ns, name, KEY, letters)), returns, out) != 0:
        raise _library.LibraryError(
            f"{library.ns}::{name}: PyTorch {torch.__version__} refuses the kernel. Install PyTorch 2.11 or newer"
        )


def relay() -> None:
    """Let C++ decide whether ``flashcore::fwd`` records a gradient. ``flashcore.ops`` has defined what it calls then."""
    replay = find()
    if replay is not None and replay.flashcore_ops_relay() != 0:
        raise _library.LibraryError(
            f"flashcore::fwd: PyTorch {torch.__version__} refuses the kernel. Install PyTorch 2.11 or newer"
        )


def raise_again(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel that C++ calls. Its exception reaches the caller, which PyTorch's stable ABI would replace."""

    def raising(*arguments: Any) -> Any:
        try:
            return kernel(*arguments)
        except BaseException as error:
            replay = find()
            if replay is not None:
                message = str(error).encode(errors="replace")
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))  # for C++, which gives it back
                replay.flashcore_ops_raise(message, id(error))
            raise

    return raising


def _recorded(kernel: Callable[..., Any], names: Sequence[str], replay: ctypes.CDLL, returns: int) -> Callable[..., Any]:
    """Wrap a kernel. It hands its launch over, and its error as text, because C++ calls it."""

    def fallback(*arguments: Any) -> Any:
        launches: list[_launch.Launched] = []
        _launch.recorder.launches = launches
        try:
            result = kernel(*arguments)
        except Exception as error:  # noqa: BLE001 - every error is raised again, by C++
            replay.flashcore_ops_fail(str(error).encode())
            empty = torch.empty(0, device=arguments[0].device)
            return (
                None
                if returns == WRITES
                else (empty, empty.clone(), *((empty.clone(), empty.clone()) if returns == FLASH3 else ()))
            )
        finally:
            _launch.recorder.launches = None
        if len(launches) == 1:
            _keep(launches[0], dict(zip(names, arguments, strict=False)), result, replay)
        return result

    return fallback


def _keep(launched: _launch.Launched, arguments: dict[str, Any], result: Any, replay: ctypes.CDLL) -> None:
    """Hand a launch over if all of its tensors are the operator's own, and its results are the operator's."""
    entry, library, launch, tensors, (out, lse) = launched
    for tensor, shape in zip(result or (), (launch.out, launch.lse), strict=False):
        if tuple(tensor.shape) != shape or not tensor.is_contiguous():
            return
    positions = {name: i for i, name in enumerate(arguments)}
    pairs: list[int] = []
    new: dict[str, Any] = {}
    for name, tensor, word in zip(entry.names, tensors, entry.find_words(), strict=True):
        argument = arguments.get(NAMES.get(name, name))
        if argument is None and name in {"out", "lse"}:
            new[name] = word
        elif argument is not None and tensor is not None and argument.data_ptr() == tensor.data_ptr():
            pairs += [word, positions[NAMES.get(name, name)]]
        elif tensor is not None or argument is not None:
            return  # a tensor made for this call: its content may differ in the next
    words = (ctypes.c_uint64 * len(launch.words))(*launch.words)
    addresses = (ctypes.c_int64 * len(pairs))(*pairs)
    recording = Recording(
        launch=ctypes.cast(getattr(library, entry.function), ctypes.c_void_p).value,
        words=ctypes.addressof(words),
        word_count=len(words),
        addresses=ctypes.addressof(addresses),
        address_count=len(pairs) // 2,
        out_word=new.get("out", -1),
        lse_word=-1 if lse is None else new.get("lse", -1),
        out_rank=len(launch.out),
        out_sizes=(*launch.out, *[0] * (MAX_RANK - len(launch.out))),
        lse_rank=len(launch.lse),
        lse_sizes=(*launch.lse, *[0] * (MAX_RANK - len(launch.lse))),
        out_is_bfloat16=out.dtype == torch.bfloat16,
        workspace_word=entry.workspace,
        workspace_bytes=launch.workspace_bytes,
        stream_word=entry.stream,
        device=launch.device,
    )
    replay.flashcore_ops_keep(ctypes.byref(recording))
    _lend(entry.function, recording, replay)


def _lend(function: str, recording: Recording, replay: ctypes.CDLL) -> None:
    """Let replayed launches of the current stream use the workspace that Python's launches use. A capture's is its own."""
    stream = _launch.current_stream(recording.device)
    key = (recording.launch, recording.device, stream)
    workspace, before = _tensors.find_workspace(function, recording.device, stream), _lent.get(key)
    if workspace is None or (before is not None and before[1] >= workspace[1]):
        return
    if before is not None:
        _superseded.append(before)
    _lent[key] = workspace
    replay.flashcore_ops_lend(*key, *workspace[:2])

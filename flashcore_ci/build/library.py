"""Link objects into a subject's shared library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flashcore_ci.adapters import host_elf, nvcc, process
from flashcore_ci.bounded import files
from flashcore_ci.build.compiler import BuildContext, diagnose_failure
from flashcore_ci.build.external import ExternalLibrary
from flashcore_ci.build.objects import CompiledUnit
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import digest_of

LINK_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedLibrary:
    """A linked library, the SHA-256 of its file in hex, and a digest of its host code."""

    key: str
    digest: str
    host_code: str
    schema: Literal["library-v2"] = "library-v2"


def library_key(objects: Sequence[str], external: Sequence[ExternalLibrary], context: BuildContext) -> str:
    """Return the cache key of a library of the objects with these SHA-256 digests."""
    tools = (LinkedLibrary.__name__, context.toolchain.digest, context.host.identity, nvcc.LINK_OPTIONS)
    return digest_of(*tools, tuple(objects), *((library.digest, library.objects) for library in external))


def link(
    objects: Sequence[CompiledUnit], external: Sequence[ExternalLibrary], name: str, context: BuildContext
) -> LinkedLibrary | CompileError:
    """Link the ``objects`` in the cache, unless it has the result. Errors about ``name`` as ``diagnose_failure``."""
    key, cache = library_key([part.digest for part in objects], external, context), context.cache
    if (cached := cache.load(LinkedLibrary, key)) is not None:
        return cached
    with cache.workspace() as work:
        made = work / "library.so"
        parts: list[Path] = []
        for number, part in enumerate(objects):  # g++ recognises objects by their suffix
            parts.append(work / f"{number}.o")
            parts[-1].symlink_to(cache.product_path(part.key).resolve())
        for number, file in enumerate(file for library in external for file in library.objects):  # nvcc knows only .so
            parts.append(work / f"{number}.so")
            parts[-1].symlink_to(file)
        command = nvcc.link_argv(context.toolchain.nvcc, objects=parts, library=made, lib=context.toolchain.lib)
        environment = {**context.host.environment, "TMPDIR": str(work)}
        completed = process.run(command, logs=work, name="link", timeout=LINK_SECONDS, env=environment)
        output = completed.error_text() + completed.text()
        error = diagnose_failure(completed, output, nvcc.link_error(output, name) or nvcc.first_error(output), name)
        if error is not None:
            return error
        data = files.read(made, limit=files.MAX_BINARY)
        linked = LinkedLibrary(key=key, digest=hashlib.sha256(data).hexdigest(), host_code=host_elf.library_digest(data))
        cache.keep(key, made, linked)
    return linked

"""Optional parts of the package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from flashcore_ci.model.errors import UsageError

OF_HISTORY = frozenset({"alembic", "psycopg", "sqlalchemy"})


@contextlib.contextmanager
def extra() -> Iterator[None]:
    """Raise UsageError with the command that installs the extra, if an import in the block lacks it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in OF_HISTORY:
            raise
        raise UsageError(f"the history needs {error.name}", fix="pip install 'flashcore-ci[history]'") from None

"""The address of a database: ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``, without a password."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.text import visible

Address = URL
PASSWORD = "FLASHCORE_CI_DB_PASSWORD"  # noqa: S105 - the name of a variable
POSTGRESQL, SQLITE = "postgresql", "sqlite"
ALLOWED = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "host", "port"})
"""What a PostgreSQL address may say after ``?``. Any other name could hold a password, or run something."""
SSL_MODES = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
LAST_PORT = 65_535
FORMS = "give sqlite:///FILE or postgresql://USER@HOST/NAME"


def parse(text: str, environ: Mapping[str, str]) -> URL:
    """Read an address. UsageError if it holds a password, or is of another kind. The message never repeats it."""
    try:
        url = make_url(text)
        ports = [*([] if url.port is None else [url.port]), *map(int, _given(url, "port"))]
        can_connect = all(0 < port <= LAST_PORT for port in ports) and SSL_MODES.issuperset(_given(url, "sslmode"))
    except (ArgumentError, ValueError):
        raise UsageError("--db is not the address of a database", fix=FORMS) from None
    if url.drivername not in {SQLITE, POSTGRESQL} or not url.database:
        raise UsageError("--db is neither a file of SQLite nor a database of PostgreSQL", fix=FORMS)
    if not can_connect:
        modes = ", ".join(sorted(SSL_MODES))
        raise UsageError(
            "--db has a port or an sslmode that no database has", fix=f"use ports up to {LAST_PORT}, and one of {modes}"
        )
    if url.password is not None:
        raise UsageError("--db holds a password, which logs would keep", fix=f"remove it, and set {PASSWORD}")
    if url.drivername == SQLITE:
        return _file(url)
    refused = sorted(set(url.query) - ALLOWED)
    if refused or "=" in url.database or "://" in url.database:
        raise UsageError("--db has an option that is not allowed", fix=f"use only {', '.join(sorted(ALLOWED))} after ?")
    return url.set(drivername="postgresql+psycopg", password=environ.get(PASSWORD) or None)


def _given(url: URL, name: str) -> list[str]:
    """Return the values of an option. Several hosts have one each, between commas."""
    return [part for value in url.normalized_query.get(name, ()) for part in value.split(",")]


def shown(url: URL) -> str:
    """Name the database in messages, without user and password."""
    if url.drivername == SQLITE:
        return visible(url.database or "")
    return visible(f"{POSTGRESQL}://{url.host or url.query.get('host') or 'localhost'}/{url.database}")


def _file(url: URL) -> URL:
    name = url.database or ""
    if url.query or url.host or name == ":memory:" or name.startswith("file:") or "\0" in name:
        raise UsageError("--db is not a plain file of SQLite", fix="give sqlite:///FILE")
    return url.set(database=str(Path(name)))

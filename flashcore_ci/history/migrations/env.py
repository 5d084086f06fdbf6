"""Alembic's entry: migrate the connection that ``database.py`` gives, in its transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()

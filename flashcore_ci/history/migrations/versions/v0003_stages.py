"""How long each kind of evidence took, per run."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Add the column. Runs that are there say nothing."""
    op.add_column("runs", Column("stages", Text, nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("runs", "stages")

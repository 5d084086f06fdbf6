"""The farthest round of each sitting."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float

revision, down_revision = "0004", "0003"
TABLES = ("points", "ratios")


def upgrade() -> None:
    """Add the columns."""
    for table in TABLES:
        op.add_column(table, Column("far", Float(53)))


def downgrade() -> None:
    """Drop the columns."""
    for table in TABLES:
        op.drop_column(table, "far")

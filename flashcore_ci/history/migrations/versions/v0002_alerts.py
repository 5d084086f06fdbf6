"""Alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def _to(name: str, target: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, sa.ForeignKey(f"{target}.id", name=f"fk_alert_series_{name}"), nullable=nullable)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("key", "state", "owner", "reason", "until")),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "alert_series",
        _to("alert_id", "alerts"),
        _to("series_id", "series"),
        _to("first_run_id", "runs"),
        _to("last_good_run_id", "runs", nullable=True),
        *(sa.Column(name, sa.Float(53), nullable=False) for name in ("log_ratio", "standard_error")),
        sa.PrimaryKeyConstraint("alert_id", "series_id", name="pk_alert_series"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("alert_series")
    op.drop_table("alerts")

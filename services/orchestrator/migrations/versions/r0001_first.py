"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "optimizations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(36), nullable=False, unique=True),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("lease_owner", sa.String(255), nullable=False),
        sa.Column("lease_token", sa.BigInteger, nullable=False),
        sa.Column("lease_expires", sa.Float(53), nullable=False),
        sa.Column("optimization", sa.LargeBinary, nullable=False),
    )
    op.create_index("optimizations_by_age", "optimizations", ["created_us", "id"])
    op.create_index("optimizations_to_take", "optimizations", ["state", "lease_expires"])
    op.create_table(
        "events",
        sa.Column("optimization_id", sa.String(64), sa.ForeignKey("optimizations.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("event", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("problem_id", sa.String(64), nullable=False),
        sa.Column("kernel_id", sa.String(64), nullable=False),
        sa.Column("device_kind", sa.Integer, nullable=False),
        sa.Column("verdict", sa.Integer, nullable=False),
        sa.Column("evaluation", sa.LargeBinary, nullable=False),
    )
    op.create_index("evaluations_by_kernel", "evaluations", ["problem_id", "kernel_id", "device_kind"])


def downgrade() -> None:
    """Go back to the revision before."""
    for table in ("evaluations", "events", "optimizations"):
        op.drop_table(table)

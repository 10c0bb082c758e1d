"""Stored evaluations: facts that any optimization may use. Functions on an open connection of the store."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from optiml.v1 import evaluation_pb2, verdict_pb2
from services.orchestrator.schema import evaluations

__all__ = ["find", "find_known", "keep"]

# These verdicts may come from a busy machine: they are shown, but never taken for a fact by another optimization.
_PASSING = (verdict_pb2.VERDICT_INTERNAL, verdict_pb2.VERDICT_TIMED_OUT, verdict_pb2.VERDICT_UNSTABLE)


def keep(connection: sa.Connection, insert: Callable[..., Any], found: evaluation_pb2.Evaluation) -> None:
    """Store an evaluation unless its id is known; a fact takes the place of a passing fault.

    Args:
        connection: within a transaction.
        insert: the dialect's insert, which knows ON CONFLICT.
        found: with its id.
    """
    row = {
        "id": found.id,
        "problem_id": found.problem_id,
        "kernel_id": found.kernel_id,
        "device_kind": found.device.kind,
        "verdict": found.verdict,
        "evaluation": found.SerializeToString(),
    }
    again = {name: row[name] for name in ("verdict", "evaluation")}
    connection.execute(
        insert(evaluations)
        .values(row)
        .on_conflict_do_update(index_elements=[evaluations.c.id], set_=again, where=evaluations.c.verdict.in_(_PASSING))
    )


def find(connection: sa.Connection, evaluation_id: str) -> evaluation_pb2.Evaluation | None:
    """Return the evaluation with an id, if there is one."""
    query = sa.select(evaluations.c.evaluation).where(evaluations.c.id == evaluation_id)
    blob = connection.execute(query).scalar_one_or_none()
    return None if blob is None else evaluation_pb2.Evaluation.FromString(blob)


def find_known(
    connection: sa.Connection, kernel_id: str, baseline: evaluation_pb2.Evaluation
) -> evaluation_pb2.Evaluation | None:
    """Return the fact about a kernel on the baseline's problem, device and toolchain, if there is one."""
    query = sa.select(evaluations.c.evaluation).where(
        evaluations.c.problem_id == baseline.problem_id,
        evaluations.c.kernel_id == kernel_id,
        evaluations.c.device_kind == baseline.device.kind,
        evaluations.c.verdict.not_in(_PASSING),
    )
    for blob in connection.execute(query).scalars():
        found = evaluation_pb2.Evaluation.FromString(blob)
        if found.device == baseline.device and found.toolchain == baseline.toolchain:
            return found
    return None

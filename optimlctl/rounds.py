"""The rounds of a search, read from its event log: each edit with what its parent's diagnosis was and what came of it.

The log keeps proposals and outcomes apart; views want them together.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from optiml.v1 import search_pb2, verdict_pb2
from optimlctl import wording

__all__ = ["Log", "Round", "outcome", "read_rounds"]


@dataclass(frozen=True, slots=True)
class Round:
    """One evaluated edit."""

    edit: search_pb2.Edit
    """Empty if the log lacks the proposal (it was read from the middle)."""
    evaluated: search_pb2.EditEvaluated
    diagnosis: search_pb2.Diagnosis
    """Of the parent; empty if the log lacks it."""


@dataclass(slots=True)
class Log:
    """What has to be remembered of a log to tell its rounds, event by event."""

    _edits: dict[int, list[search_pb2.Edit]] = field(default_factory=lambda: defaultdict(list))
    _diagnoses: dict[int, search_pb2.Diagnosis] = field(default_factory=dict)

    def add(self, event: search_pb2.Event) -> Round | None:
        """Take in an event; return the round that it ends, if it ends one."""
        kind = event.WhichOneof("kind")
        if kind == "node_diagnosed":
            self._diagnoses[event.node_diagnosed.node] = event.node_diagnosed.diagnosis
        elif kind == "edits_proposed":
            self._edits[event.edits_proposed.node].extend(event.edits_proposed.edits)
        elif kind == "edit_evaluated":
            evaluated = event.edit_evaluated
            edits = self._edits[evaluated.parent]
            edit = edits[evaluated.edit] if 0 <= evaluated.edit < len(edits) else search_pb2.Edit()
            return Round(edit, evaluated, self._diagnoses.get(evaluated.parent, search_pb2.Diagnosis()))
        return None


def read_rounds(events: Iterable[search_pb2.Event]) -> list[Round]:
    """Return the rounds of a log, in order."""
    log = Log()
    return [ended for event in events if (ended := log.add(event)) is not None]


def outcome(ended: Round) -> str:
    """Return what came of a round, one phrase for a person."""
    evaluated = ended.evaluated
    evaluation = evaluated.evaluation
    if evaluation.verdict != verdict_pb2.VERDICT_OK:
        reason = f": {evaluation.reason}" if evaluation.reason else ""
        return f"{wording.verdict(evaluation.verdict)}{reason}"
    if not evaluated.HasField("against_parent"):
        return "correct, but without a time to compare"
    over_parent = f"{wording.speedup(evaluated.against_parent)} over its parent"
    if evaluated.kept:
        return f"kept, {over_parent}"
    if evaluated.judgement.veto:
        why = evaluated.judgement.words.rpartition("Veto: ")[2].rstrip(".")  # the rest tells what the table tells
        return f"vetoed ({why}), {over_parent}"
    slower = evaluated.against_parent.speedup <= 1
    return f"{'not faster' if slower else 'not faster beyond noise'}, {over_parent}"

"""The order in which edits are worth trying."""

from collections import Counter
from collections.abc import Iterable

from optiml.v1 import search_pb2, verdict_pb2

__all__ = ["ranked"]

_ALSO = 0.85
_ELSEWHERE = 0.6
_SIBLING = 0.95
"""Each further edit of one transformation counts a little less, so that others get their turn."""


def _aim(edit: search_pb2.Edit, diagnosis: search_pb2.Diagnosis) -> float:
    """Return how well the edit is aimed at what limits the kernel, 0 to 1."""
    if diagnosis.bottleneck in {verdict_pb2.BOTTLENECK_UNSPECIFIED, verdict_pb2.BOTTLENECK_NONE}:
        return 1.0
    if diagnosis.bottleneck in edit.targets:
        return 1.0
    return _ALSO if set(diagnosis.also) & set(edit.targets) else _ELSEWHERE


def ranked(edits: Iterable[search_pb2.Edit], diagnosis: search_pb2.Diagnosis) -> list[search_pb2.Edit]:
    """Return the edits, most promising first, with their prior adjusted to the diagnosis."""
    siblings: Counter[str] = Counter()
    found = sorted(edits, key=lambda edit: -edit.prior)
    for edit in found:
        worth = edit.prior * _aim(edit, diagnosis) * _SIBLING ** siblings[edit.transformation]
        siblings[edit.transformation] += 1
        edit.prior = min(max(worth, 0.01), 0.99)
    return sorted(found, key=lambda edit: (-edit.prior, edit.transformation, edit.kernel.id))

"""What ends an evaluation early: a verdict with its reason, raised by the stage that found it."""

from optiml.v1 import evaluation_pb2, verdict_pb2

__all__ = ["CandidateError"]


class CandidateError(Exception):
    """The candidate failed; this is a fact about it, never an error of the RPC."""

    def __init__(
        self,
        verdict: verdict_pb2.Verdict.ValueType,
        reason: str,
        log: str = "",
        findings: tuple[evaluation_pb2.Finding, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason
        self.log = log
        self.findings = findings

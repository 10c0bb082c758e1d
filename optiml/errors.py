"""Failures of the domain, as types. `optiml.rpc.interceptors` maps each to one gRPC status, once."""

from collections.abc import Sequence

from optiml.v1 import errors_pb2

__all__ = [
    "BusyError",
    "Error",
    "FieldViolation",
    "InvalidArgumentError",
    "NotFoundError",
    "PreconditionError",
    "RequestIdReusedError",
    "UpstreamUnavailableError",
]


class Error(Exception):
    """A failure that is told to the caller. `str(error)` is one line: what, where, how to mend it."""

    reason: errors_pb2.ErrorReason.ValueType = errors_pb2.ERROR_REASON_UNSPECIFIED


class FieldViolation(Exception):  # noqa: N818 - it names a part of an error, after google.rpc.BadRequest
    """One wrong field: its path, as in `arguments[2].shape`, and what is wrong with it."""

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}")
        self.field = field
        self.description = description


class InvalidArgumentError(Error):
    """The caller sent something that can never work; the violations name the fields."""

    reason = errors_pb2.ERROR_REASON_INVALID_ARGUMENT

    def __init__(self, message: str, violations: Sequence[FieldViolation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class RequestIdReusedError(Error):
    """The same request id came with another body."""

    reason = errors_pb2.ERROR_REASON_REQUEST_ID_REUSED


class NotFoundError(Error):
    """Nothing has this id."""

    reason = errors_pb2.ERROR_REASON_NOT_FOUND


class BusyError(Error):
    """The queue is full; worth another try after `retry_seconds`."""

    reason = errors_pb2.ERROR_REASON_BUSY

    def __init__(self, message: str, retry_seconds: float) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class PreconditionError(Error):
    """This machine lacks something; the message has the cure."""

    reason = errors_pb2.ERROR_REASON_PRECONDITION


class UpstreamUnavailableError(Error):
    """A service behind this one does not answer."""

    reason = errors_pb2.ERROR_REASON_UPSTREAM_UNAVAILABLE

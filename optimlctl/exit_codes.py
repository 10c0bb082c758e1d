"""What the exit codes of optimlctl mean, in one place."""

from enum import IntEnum

import grpc

from optiml import errors
from optiml.v1 import errors_pb2, verdict_pb2

__all__ = ["ExitCode", "of_error", "of_failed_baseline"]


class ExitCode(IntEnum):
    """How optimlctl ends."""

    DONE = 0
    """Also when the input was the best already."""
    FAILED = 1
    """Anything that no other code tells."""
    USAGE = 2
    """The command line is wrong."""
    INVALID_INPUT = 3
    """The source or the problem is invalid: retrying without an edit is useless."""
    BASELINE_FAILED = 4
    """The kernel that came in does not compile, or is wrong."""
    UNREACHABLE = 5
    """The service does not answer or is busy: retrying may help."""
    INTERRUPTED = 130
    """Ctrl-C, or SIGTERM."""


_BASELINE_FAILURES = frozenset(
    {
        verdict_pb2.VERDICT_COMPILE_FAILED,
        verdict_pb2.VERDICT_LAUNCH_FAILED,
        verdict_pb2.VERDICT_WRONG_RESULT,
        verdict_pb2.VERDICT_MEMORY_FAULT,
        verdict_pb2.VERDICT_RACE,
        verdict_pb2.VERDICT_TIMED_OUT,
        verdict_pb2.VERDICT_RESOURCE_EXCEEDED,
        verdict_pb2.VERDICT_UNSTABLE,
        verdict_pb2.VERDICT_IMPLAUSIBLE,
    }
)


def of_failed_baseline(
    verdict: verdict_pb2.Verdict.ValueType,
    reason: errors_pb2.ErrorReason.ValueType = errors_pb2.ERROR_REASON_UNSPECIFIED,
) -> ExitCode:
    """Return the exit code for an input kernel with this verdict, which is not OK.

    Args:
        verdict: the kernel's, or INTERNAL.
        reason: why a service refused the request itself, if one did.
    """
    if reason == errors_pb2.ERROR_REASON_INVALID_ARGUMENT:
        return ExitCode.INVALID_INPUT
    if reason == errors_pb2.ERROR_REASON_UPSTREAM_UNAVAILABLE:
        return ExitCode.UNREACHABLE
    if verdict in _BASELINE_FAILURES:
        return ExitCode.BASELINE_FAILED
    if verdict == verdict_pb2.VERDICT_REJECTED_SOURCE:
        return ExitCode.INVALID_INPUT
    return ExitCode.FAILED


def of_error(error: errors.Error | grpc.aio.AioRpcError) -> ExitCode:
    """Return the exit code for a failed call."""
    if isinstance(error, errors.InvalidArgumentError):
        return ExitCode.INVALID_INPUT
    if isinstance(error, (errors.UpstreamUnavailableError, errors.BusyError)):
        return ExitCode.UNREACHABLE
    if isinstance(error, grpc.aio.AioRpcError) and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED

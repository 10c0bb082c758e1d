"""Domain errors to google.rpc.Status and back: one table, used by servers and clients alike.

Every status carries exactly one `google.rpc.ErrorInfo` (AIP-193); wrong fields add `BadRequest`, a full queue adds
`RetryInfo`.
"""

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from optiml import errors
from optiml.v1 import errors_pb2

__all__ = ["from_rpc_error", "to_status"]

_DOMAIN = "optiml.dev"
_PREFIX = "ERROR_REASON_"

_CODES: dict[type[errors.Error], grpc.StatusCode] = {
    errors.InvalidArgumentError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.RequestIdReusedError: grpc.StatusCode.ALREADY_EXISTS,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.BusyError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.PreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UpstreamUnavailableError: grpc.StatusCode.UNAVAILABLE,
}
_CODE_VALUES = {code: code.value[0] for code in grpc.StatusCode}


def _packed(
    message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest | error_details_pb2.RetryInfo,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def to_status(error: errors.Error) -> status_pb2.Status:
    """Return the status that tells this error, details included."""
    reason = errors_pb2.ErrorReason.Name(error.reason).removeprefix(_PREFIX)
    details = [_packed(error_details_pb2.ErrorInfo(reason=reason, domain=_DOMAIN))]
    if isinstance(error, errors.InvalidArgumentError) and error.violations:
        bad = error_details_pb2.BadRequest()
        for violation in error.violations:
            bad.field_violations.add(field=violation.field, description=violation.description)
        details.append(_packed(bad))
    if isinstance(error, errors.BusyError):
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_seconds * 1000))
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    return status_pb2.Status(code=_CODE_VALUES[_CODES[type(error)]], message=str(error), details=details)


def from_rpc_error(error: grpc.aio.AioRpcError) -> errors.Error:
    """Return the domain error that a failed call carries; an unreachable service becomes UpstreamUnavailableError.

    Raises:
        grpc.aio.AioRpcError: it is none of ours (CANCELLED, DEADLINE_EXCEEDED, INTERNAL …): the argument, again.
    """
    code, message = error.code(), error.details() or str(error.code())
    bad, retry_seconds = error_details_pb2.BadRequest(), 1.0
    status = rpc_status.from_call(error)  # reads the two methods that it shares with calls
    for detail in status.details if status else ():
        if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            detail.Unpack(bad)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_seconds = retry.retry_delay.ToMilliseconds() / 1000
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT:
            violations = [errors.FieldViolation(v.field, v.description) for v in bad.field_violations]
            return errors.InvalidArgumentError(message, violations)
        case grpc.StatusCode.ALREADY_EXISTS:
            return errors.RequestIdReusedError(message)
        case grpc.StatusCode.NOT_FOUND:
            return errors.NotFoundError(message)
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return errors.BusyError(message, retry_seconds)
        case grpc.StatusCode.FAILED_PRECONDITION:
            return errors.PreconditionError(message)
        case grpc.StatusCode.UNAVAILABLE:
            return errors.UpstreamUnavailableError(message)
    raise error

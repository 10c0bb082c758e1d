"""Requests of the OptimizerService: what is checked, and what is made of them."""

import base64
import binascii
import hashlib
import uuid

from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.identity import kernel_id, problem_id
from optiml.problem import require_valid, validate_kernel, validate_problem
from optiml.v1 import optimizer_service_pb2, search_pb2
from services.orchestrator.settings import SearchTuning, settings_violations, with_defaults

__all__ = ["body_digest", "new_optimization", "page_size", "read_page_token", "write_page_token"]

_PAGE, _LARGEST_PAGE = 50, 1000


def new_optimization(
    request: optimizer_service_pb2.CreateOptimizationRequest, tuning: SearchTuning
) -> search_pb2.Optimization:
    """Return the optimization that a valid request asks for, with ids computed and defaults filled in.

    Raises:
        InvalidArgumentError: with every field that is wrong.
    """
    violations = [*_request_id_violations(request.request_id)]
    violations += [FieldViolation(f"problem.{v.field}", v.description) for v in validate_problem(request.problem)]
    if not violations:  # a kernel can only be checked against a valid problem
        for violation in validate_kernel(request.baseline, request.problem):
            path = "baseline" + violation.field.removeprefix("kernel")
            violations.append(FieldViolation(path, violation.description))
    violations += settings_violations(request.settings)
    require_valid(violations)
    created = search_pb2.Optimization(
        id=f"o{uuid.uuid4().hex[:24]}",
        request_id=str(uuid.UUID(request.request_id)),
        problem=request.problem,
        baseline=request.baseline,
        settings=with_defaults(request.settings, tuning),
        state=search_pb2.OPTIMIZATION_STATE_PENDING,
    )
    created.problem.id, created.baseline.id = problem_id(created.problem), kernel_id(created.baseline)
    created.created_at.GetCurrentTime()
    return created


def body_digest(request: optimizer_service_pb2.CreateOptimizationRequest) -> str:
    """Return the hash of what the client sent, its request id left out."""
    body = optimizer_service_pb2.CreateOptimizationRequest()
    body.CopyFrom(request)
    body.request_id = ""
    return hashlib.sha256(body.SerializeToString(deterministic=True)).hexdigest()


def page_size(wanted: int) -> int:
    """Return the size of a page: the default for 0.

    Raises:
        InvalidArgumentError: it is negative.
    """
    if wanted < 0:
        require_valid([FieldViolation("page_size", f"{wanted} is negative; 0 lets the server choose")])
    return min(wanted, _LARGEST_PAGE) or _PAGE


def write_page_token(last: search_pb2.Optimization) -> str:
    """Return the token that continues after an optimization."""
    return base64.urlsafe_b64encode(f"{last.created_at.ToMicroseconds()}:{last.id}".encode()).decode()


def read_page_token(token: str) -> tuple[int, str] | None:
    """Return (created in microseconds, id) of a token; None for an empty one.

    Raises:
        InvalidArgumentError: no server of ours wrote it.
    """
    if not token:
        return None
    try:
        created, _, identity = base64.b64decode(token, altchars=b"-_", validate=True).decode().partition(":")
        created_us = int(created)
    except (binascii.Error, ValueError):
        created_us, identity = -1, ""
    if not 0 <= created_us < 2**62 or not identity:
        violation = FieldViolation("page_token", "is not from an earlier answer; leave it empty for the first page")
        raise InvalidArgumentError(str(violation), [violation])
    return created_us, identity


def _request_id_violations(request_id: str) -> list[FieldViolation]:
    try:
        given = str(uuid.UUID(request_id))
    except ValueError:
        given = ""
    if given and given == request_id.lower():
        return []
    return [
        FieldViolation("request_id", f"{request_id[:64]!r} is not a UUID as in 123e4567-e89b-42d3-a456-426614174000")
    ]

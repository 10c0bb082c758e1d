"""What every server does around every call: context for the log, and exceptions to status codes.

A domain error becomes its status. Anything else is a bug: it is logged with its traceback and told as INTERNAL without
internals.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import structlog
from grpc_status import rpc_status

from optiml import errors
from optiml.rpc.status import to_status

__all__ = ["ErrorsToStatus"]

_log = structlog.get_logger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


async def _abort(context: "grpc.aio.ServicerContext[Any, Any]", method: str, error: Exception) -> None:
    if isinstance(error, errors.Error):
        status = rpc_status.to_status(to_status(error))
        context.set_trailing_metadata(status.trailing_metadata)
        await context.abort(status.code, status.details)
    _log.exception("call failed", method=method)
    await context.abort(grpc.StatusCode.INTERNAL, f"{method} failed by a fault of its own; its log has the details")


class ErrorsToStatus(grpc.aio.ServerInterceptor):
    """Maps exceptions of unary-unary and unary-stream methods to status codes, and logs each call's duration."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Wrap the method's handler; streams of requests are left alone, since no method of ours has one."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None:  # no such method: gRPC answers UNIMPLEMENTED
            return handler
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                _unary(handler.unary_unary, method), handler.request_deserializer, handler.response_serializer
            )
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                _stream(handler.unary_stream, method), handler.request_deserializer, handler.response_serializer
            )
        return handler


def _unary(behaviour: Callable[..., Any], method: str) -> Callable[..., Any]:
    async def call(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> Any:
        with structlog.contextvars.bound_contextvars(method=method):
            started = time.perf_counter()
            try:
                return await behaviour(request, context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the one place where every failure becomes a status
                await _abort(context, method, error)
            finally:
                _log.debug("call", duration_ms=round((time.perf_counter() - started) * 1000, 3))

    return call


def _stream(behaviour: Callable[..., Any], method: str) -> Callable[..., Any]:
    async def call(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
        with structlog.contextvars.bound_contextvars(method=method):
            started = time.perf_counter()
            try:
                async for response in behaviour(request, context):
                    yield response
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                await _abort(context, method, error)
            finally:
                _log.debug("stream", duration_ms=round((time.perf_counter() - started) * 1000, 3))

    return call

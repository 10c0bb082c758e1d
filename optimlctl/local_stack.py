"""The four services in this process, on Unix sockets in a private temporary folder: the embedded default.

The client talks gRPC to them as it would to a cluster. The store is SQLite in the state folder, so a client that is
killed loses nothing: the next local stack goes on with what was open.
"""

import importlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from optiml.rpc.server import Service, serving
from optiml.settings import settings
from optimlctl.failures import CommandError

__all__ = ["Part", "local_stack"]

_GRACE_SECONDS = 0.5  # nobody else waits for these servers


class Part(Enum):
    """What of the stack is started."""

    ALL = "all"
    """All four services: searches that are open go on."""
    STORE = "store"
    """Only the orchestrator over its store, driving nothing."""
    PROFILER = "profiler"
    """Only the profiler."""


@asynccontextmanager
async def local_stack(part: Part = Part.ALL, *, listen: str | None = None) -> AsyncIterator[str]:
    """Run services within the context.

    Args:
        part: which.
        listen: where else to serve all of them, as `host:port` or `unix:/path`; None is a private Unix socket.

    Yields:
        The address at which the wanted part answers.

    Raises:
        CommandError: the state folder cannot be used, or the address cannot be bound.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="optiml-", dir=_short_folder())))
        _prepare_state_folder(settings().state_folder)
        try:
            start = {Part.ALL: _all, Part.STORE: _store, Part.PROFILER: _profiler}[part]
            address = await stack.enter_async_context(start(folder, listen or f"unix:{folder / 'optiml.sock'}"))
        except OSError as error:
            cure = "; is another one running there? Choose another address with --listen" if listen else ""
            reason = str(error).partition("; set GRPC_VERBOSITY")[0]  # a hint for people who debug gRPC
            raise CommandError(f"cannot start the services: {reason}{cure}") from error
        yield address


def _profiler(_folder: Path, listen: str) -> AbstractAsyncContextManager[str]:
    return _serve([_module("profiler").service()], listen)


def _store(_folder: Path, listen: str) -> AbstractAsyncContextManager[str]:
    return _serve([_module("orchestrator").service(settings(), drive=False)], listen)


@asynccontextmanager
async def _all(folder: Path, listen: str) -> AsyncIterator[str]:
    addresses: dict[str, str] = {}
    shared: list[Service] = []
    async with AsyncExitStack() as stack:
        for name in ("profiler", "judge", "generator"):
            service: Service = _module(name).service()
            addresses[f"{name}_address"] = await stack.enter_async_context(
                _serve([service], f"unix:{folder / name}.sock")
            )
            shared.append(replace(service, stop=None))  # whoever served it first stops it
        # The orchestrator is last to start and first to stop: its calls end before those who answer them.
        own = settings().model_copy(update=addresses)
        yield await stack.enter_async_context(_serve([_module("orchestrator").service(own), *shared], listen))


def _serve(services: list[Service], listen: str) -> AbstractAsyncContextManager[str]:
    return serving(services, listen, grace_seconds=_GRACE_SECONDS)


def _module(name: str) -> Any:
    # Imported when needed: a client of a remote server starts in half the time and needs no compiler.
    return importlib.import_module(f"services.{name}.server")


def _short_folder() -> str | None:
    # The path of a Unix socket has at most 107 bytes, and temporary folders can be deep.
    return "/tmp" if len(os.fsencode(tempfile.gettempdir())) > 60 else None  # noqa: S108 - a private folder in it


def _prepare_state_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(
            f"cannot use the state folder {folder}: {error.strerror or error}; set OPTIML_STATE_FOLDER to a folder "
            "that can be written"
        ) from error

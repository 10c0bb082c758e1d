"""`optimlctl doctor`: what works here, and the cure for what does not."""

import asyncio
import json
import platform

import typer
from rich.console import Console
from rich.text import Text

from optiml.settings import settings
from optiml.v1 import profiler_service_pb2
from optimlctl import options, wording
from optimlctl.connection import profiler
from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError, printable
from optimlctl.following import CALL_SECONDS
from optimlctl.installed import package_version
from optimlctl.logs import log_path
from optimlctl.result_folder import check_writable

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor")(doctor)


def doctor(server: options.ServerOption = "", as_object: options.JsonOption = False) -> int:
    """Say what this machine (or a profiler) can do, and how to mend what it cannot.

    --server names a profiler, or what `optimlctl up` serves. Exits with 1 if no kernel can be evaluated.

    \b
    Examples:
      optimlctl doctor
      optimlctl doctor --json --server gpu-node:7404
    """
    found = [_client(), _state_folder()]
    response = asyncio.run(_capabilities(server))
    found += response.capabilities
    usable = [wording.device(device) for device in response.devices]
    if as_object:
        keys = ("name", "available", "found", "cure")
        told = [{key: getattr(capability, key) for key in keys} for capability in found]
        typer.echo(json.dumps({"capabilities": told, "devices": usable}, ensure_ascii=False))
    else:
        _print(found, usable)
    return ExitCode.DONE if usable else ExitCode.FAILED


def _client() -> profiler_service_pb2.Capability:
    packages = ", ".join(f"{name} {package_version(name)}" for name in ("optiml", "grpcio", "protobuf", "libclang"))
    return profiler_service_pb2.Capability(
        name="client", available=True, found=f"Python {platform.python_version()}, {packages}"
    )


def _state_folder() -> profiler_service_pb2.Capability:
    folder = settings().state_folder
    try:
        check_writable(folder)
    except CommandError:
        cure = "set OPTIML_STATE_FOLDER to a folder that can be written and has room"
        return profiler_service_pb2.Capability(name="state", found=f"{folder} cannot be written", cure=cure)
    return profiler_service_pb2.Capability(name="state", available=True, found=f"{folder} (log: {log_path().name})")


async def _capabilities(server: str) -> profiler_service_pb2.GetCapabilitiesResponse:
    async with profiler(server) as stub:
        response: profiler_service_pb2.GetCapabilitiesResponse = await stub.GetCapabilities(
            profiler_service_pb2.GetCapabilitiesRequest(), timeout=CALL_SECONDS
        )
        return response


def _print(found: list[profiler_service_pb2.Capability], usable: list[str]) -> None:
    console = Console(highlight=False)
    width = max(len(capability.name) for capability in found)
    for capability in found:
        mark = Text("✓", style="green") if capability.available else Text("✗", style="red")
        line = Text.assemble(mark, f" {capability.name:{width}}  {printable(capability.found)}")
        console.print(line, soft_wrap=True)
        if not capability.available and capability.cure:
            console.print(Text(f"  {'':{width}}  cure: {printable(capability.cure)}"), soft_wrap=True)
    console.print(
        Text(f"kernels are evaluated on: {'; '.join(usable) or 'nothing, see the cures above'}"), soft_wrap=True
    )

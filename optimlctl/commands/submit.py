"""`optimlctl submit`: hands a search in and returns."""

import asyncio

import typer

from optiml.v1.search_pb2 import SearchSettings
from optimlctl import options
from optimlctl.connection import optimizer
from optimlctl.exit_codes import ExitCode
from optimlctl.input import Input, read_input
from optimlctl.local_stack import Part
from optimlctl.submitting import submit

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="submit")(submit_)


def submit_(
    file: options.FileArgument,
    kernel: options.KernelOption = "",
    problem: options.ProblemOption = None,
    server: options.ServerOption = "",
    device: options.DeviceOption = options.Device.AUTO,
    rounds: options.RoundsOption = 0,
    time_limit: options.TimeLimitOption = 0.0,
    seed: options.SeedOption = 0,
    request_id: options.RequestIdOption = "",
) -> int:
    """Hand in a kernel, print the optimization's id, and return.

    With --server the search runs there. Without, it waits in the store of this machine for `optimlctl watch ID` or
    `optimlctl up`.

    \b
    Examples:
      optimlctl submit relu.cu --server optiml.example.org:7401
      optimlctl watch "$(optimlctl submit relu.cu)" --out results
    """
    given = read_input(file, kernel, problem)
    settings = options.search_settings(device, rounds, time_limit, seed)
    return asyncio.run(_submit(given, settings, server, request_id))


async def _submit(given: Input, settings: SearchSettings, server: str, request_id: str) -> ExitCode:
    async with optimizer(server, part=Part.STORE) as stub:
        optimization = await submit(stub, given, settings, request_id)
    typer.echo(optimization.id)
    if not server:
        typer.echo(f"stored; `optimlctl watch {optimization.id}` or `optimlctl up` runs it", err=True)
    return ExitCode.DONE

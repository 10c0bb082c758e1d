"""`optimlctl cancel`: ends a search and keeps what was found."""

import asyncio

import typer

from optimlctl import options
from optimlctl.connection import optimizer
from optimlctl.exit_codes import ExitCode
from optimlctl.local_stack import Part
from optimlctl.watching import cancel

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="cancel")(cancel_)


def cancel_(optimization_id: options.IdArgument, server: options.ServerOption = "") -> int:
    """Cancel an optimization; what was found is kept.

    Cancelling one that has ended changes nothing.

    \b
    Examples:
      optimlctl cancel o5d41402abc4b2a76b9719d91
    """
    return asyncio.run(_cancel(optimization_id, server))


async def _cancel(optimization_id: str, server: str) -> ExitCode:
    async with optimizer(server, part=Part.STORE) as stub:
        optimization = await cancel(stub, optimization_id)
    typer.echo(f"{optimization.id} has ended after {optimization.rounds} rounds; see `optimlctl get {optimization.id}`")
    return ExitCode.DONE

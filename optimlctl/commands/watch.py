"""`optimlctl watch`: follows a search that was handed in before."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from optimlctl import options
from optimlctl.connection import optimizer
from optimlctl.delivering import deliver
from optimlctl.exit_codes import ExitCode
from optimlctl.following import get
from optimlctl.interrupts import interrupts
from optimlctl.result_folder import check_writable
from optimlctl.submissions import recall
from optimlctl.views import open_view
from optimlctl.watching import watch_to_end

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="watch")(watch)


def watch(
    optimization_id: options.IdArgument,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="N", help="Show only events after this sequence number.")
    ] = 0,
    server: options.ServerOption = "",
    out: options.OutOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> int:
    """Follow an optimization to its end; without --server this also runs it, also after a crash.

    Ctrl-C stops watching, not the search. Writes results only with --out.

    \b
    Examples:
      optimlctl watch o5d41402abc4b2a76b9719d91
      optimlctl watch o5d41402abc4b2a76b9719d91 --out results --server optiml.example.org:7401
    """
    if out is not None:
        check_writable(out)
    return asyncio.run(_watch(optimization_id, after, server, out, as_object=json, quiet=quiet))


async def _watch(
    optimization_id: str, after: int, server: str, out: Path | None, *, as_object: bool, quiet: bool
) -> ExitCode:
    async with optimizer(server) as stub:
        with interrupts() as interrupted:
            optimization = await get(stub, optimization_id)
            view = open_view(optimization, quiet=quiet, to_stderr=as_object)
            optimization = await watch_to_end(stub, optimization, view, interrupted, after=after)
            if interrupted.is_set():
                going_on = "it goes on there" if server else f"`optimlctl watch {optimization_id}` goes on with it"
                typer.echo(f"stopped watching {optimization_id}; {going_on}", err=True)
                return ExitCode.INTERRUPTED
            submission = recall(optimization_id)
            return await deliver(stub, optimization, submission, out=out, as_object=as_object, quiet=quiet)

"""`optimlctl get`: an optimization as it is now."""

import asyncio
from pathlib import Path

import typer

from optimlctl import options
from optimlctl.connection import optimizer
from optimlctl.delivering import deliver
from optimlctl.exit_codes import ExitCode
from optimlctl.following import get
from optimlctl.local_stack import Part
from optimlctl.result_folder import check_writable
from optimlctl.submissions import recall

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="get")(get_)


def get_(
    optimization_id: options.IdArgument,
    server: options.ServerOption = "",
    out: options.OutOption = None,
    json: options.JsonOption = False,
) -> int:
    """Show an optimization as it is now; write its results with --out.

    The exit code tells how it ended, as that of `optimize` does; 0 if it still runs.

    \b
    Examples:
      optimlctl get o5d41402abc4b2a76b9719d91 --json
      optimlctl get o5d41402abc4b2a76b9719d91 --out results
    """
    if out is not None:
        check_writable(out)
    return asyncio.run(_get(optimization_id, server, out, as_object=json))


async def _get(optimization_id: str, server: str, out: Path | None, *, as_object: bool) -> ExitCode:
    async with optimizer(server, part=Part.STORE) as stub:
        optimization = await get(stub, optimization_id)
        submission = recall(optimization_id)
        return await deliver(stub, optimization, submission, out=out, as_object=as_object, quiet=False)

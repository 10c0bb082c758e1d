"""`optimlctl up`: the local stack as a service on this machine."""

import asyncio
import re
from typing import Annotated

import typer

from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError
from optimlctl.interrupts import interrupts
from optimlctl.local_stack import Part, local_stack

__all__ = ["register"]

_LOCAL = re.compile(r"(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d{1,5}|unix:.+")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="up")(up)


def up(
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDR", help="host:port (port 0 for any free one) or unix:/path.")
    ] = "127.0.0.1:7400",
) -> int:
    """Run all four services here until Ctrl-C, and go on with searches that are open.

    There is no authentication: whoever reaches the address can run kernels here. So it is the loopback interface or a
    Unix socket only; deploy/ has what a cluster needs.

    \b
    Examples:
      optimlctl up
      optimlctl up --listen unix:/run/user/1000/optiml.sock
    """
    if not _LOCAL.fullmatch(listen):
        raise CommandError(
            f"{listen!r} is not on this machine alone; give 127.0.0.1:PORT or unix:/path, since there is no "
            "authentication",
            ExitCode.USAGE,
        )
    return asyncio.run(_up(listen))


async def _up(listen: str) -> ExitCode:
    async with local_stack(Part.ALL, listen=listen) as address:
        with interrupts() as interrupted:
            typer.echo(f"listening on {address}; use it with `--server {address}` or OPTIML_SERVER={address}")
            typer.echo("Ctrl-C stops it; open searches go on with the next `optimlctl up` or `optimlctl watch ID`")
            await interrupted.wait()
            typer.echo("stopping", err=True)
    return ExitCode.DONE

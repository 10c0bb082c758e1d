"""`optimlctl list`: the optimizations that the service knows."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from optiml.v1 import optimizer_service_pb2, search_pb2
from optimlctl import options, wording
from optimlctl.connection import optimizer
from optimlctl.exit_codes import ExitCode
from optimlctl.following import CALL_SECONDS, Stub
from optimlctl.local_stack import Part

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="list")(list_)


def list_(
    server: options.ServerOption = "",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Show at most this many.")] = 50,
    as_object: options.JsonOption = False,
) -> int:
    """List optimizations, newest first.

    \b
    Examples:
      optimlctl list
      optimlctl list --limit 200 --json --server optiml.example.org:7401
    """
    found = asyncio.run(_list(server, limit))
    rows = [_row(optimization) for optimization in found]
    if as_object:
        typer.echo(json.dumps({"optimizations": rows}, ensure_ascii=False, allow_nan=False))
    elif not rows:
        typer.echo("no optimizations yet; `optimlctl optimize FILE` starts one", err=True)
    else:
        _print(rows)
    return ExitCode.DONE


async def _list(server: str, limit: int) -> list[search_pb2.Optimization]:
    found: list[search_pb2.Optimization] = []
    async with optimizer(server, part=Part.STORE) as stub:
        async for optimization in _pages(stub, limit):
            found.append(optimization)
            if len(found) == limit:
                break
    return found


async def _pages(stub: Stub, limit: int) -> AsyncIterator[search_pb2.Optimization]:
    request = optimizer_service_pb2.ListOptimizationsRequest(page_size=min(limit, 1000))
    while True:
        page: optimizer_service_pb2.ListOptimizationsResponse = await stub.ListOptimizations(
            request, timeout=CALL_SECONDS
        )
        for optimization in page.optimizations:
            yield optimization
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _row(optimization: search_pb2.Optimization) -> dict[str, Any]:
    compared = optimization.HasField("comparison")
    return {
        "id": optimization.id,
        "name": optimization.problem.name,
        "status": search_pb2.OptimizationState.Name(optimization.state).removeprefix("OPTIMIZATION_STATE_"),
        "created_at": optimization.created_at.ToJsonString(),
        "rounds": optimization.rounds,
        "speedup": optimization.comparison.speedup if compared else None,
        "provenance": wording.provenance(optimization.comparison.provenance) if compared else None,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table("id", "kernel", "status", "created (UTC)", "rounds", "speedup", box=None, pad_edge=False)
    for row in rows:
        speedup = f"{row['speedup']:.2f}x {row['provenance']}" if row["speedup"] is not None else ""
        created = row["created_at"][:19].replace("T", " ")
        table.add_row(row["id"], row["name"], row["status"], created, str(row["rounds"]), speedup)
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else 1000  # whole lines in a pipe
    console.print(table)

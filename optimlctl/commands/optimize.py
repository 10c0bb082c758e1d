"""`optimlctl optimize`: from a file to the result folder."""

import asyncio
from pathlib import Path

import typer

from optiml.v1.search_pb2 import SearchSettings
from optimlctl import options
from optimlctl.connection import optimizer
from optimlctl.delivering import deliver
from optimlctl.exit_codes import ExitCode
from optimlctl.input import Input, read_input
from optimlctl.interrupts import interrupts
from optimlctl.result_folder import check_writable
from optimlctl.submitting import submit
from optimlctl.views import open_view
from optimlctl.watching import cancel, watch_to_end

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="optimize")(optimize)


def optimize(
    file: options.FileArgument,
    kernel: options.KernelOption = "",
    problem: options.ProblemOption = None,
    server: options.ServerOption = "",
    device: options.DeviceOption = options.Device.AUTO,
    rounds: options.RoundsOption = 0,
    time_limit: options.TimeLimitOption = 0.0,
    seed: options.SeedOption = 0,
    request_id: options.RequestIdOption = "",
    out: options.OutOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> int:
    """Find the fastest correct version of a kernel, with the reason for every edit.

    Results go to `optiml-out/NAME`: best.cu, best.patch (`patch -p1 < best.patch`), trajectory.md, trajectory.json.
    Ctrl-C ends the search and writes what was found so far; a killed search goes on with `optimlctl watch ID`.

    \b
    Examples:
      optimlctl optimize relu.cu
      optimlctl optimize relu.cu --rounds 40 --out results --json
      optimlctl optimize gemm.cu --kernel gemm_naive --problem gemm.yaml --server optiml.example.org:7401
    """
    given = read_input(file, kernel, problem)
    folder = out or Path("optiml-out") / file.stem
    check_writable(folder)
    settings = options.search_settings(device, rounds, time_limit, seed)
    return asyncio.run(_optimize(given, settings, server, request_id, folder, as_object=json, quiet=quiet))


async def _optimize(
    given: Input,
    settings: SearchSettings,
    server: str,
    request_id: str,
    folder: Path,
    *,
    as_object: bool,
    quiet: bool,
) -> ExitCode:
    async with optimizer(server) as stub:
        with interrupts() as interrupted:
            optimization = await submit(stub, given, settings, request_id)
            view = open_view(optimization, quiet=quiet, to_stderr=as_object)
            view.say(f"{optimization.id}: {given.origin}")
            optimization = await watch_to_end(stub, optimization, view, interrupted)
            if interrupted.is_set():
                optimization = await cancel(stub, optimization.id)
            code = await deliver(stub, optimization, given.submission, out=folder, as_object=as_object, quiet=quiet)
            return ExitCode.INTERRUPTED if interrupted.is_set() else code

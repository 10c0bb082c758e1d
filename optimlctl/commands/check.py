"""`optimlctl check`: how strong is a problem's own check?"""

import asyncio
import json
import sys
from pathlib import Path

import typer
from google.protobuf.json_format import MessageToDict

from optiml.v1 import profiler_service_pb2, verdict_pb2
from optimlctl import options
from optimlctl.check_report import holes, report
from optimlctl.connection import profiler
from optimlctl.exit_codes import ExitCode, of_failed_baseline
from optimlctl.failures import CommandError, one_line, printable
from optimlctl.input import Input, read_input
from optimlctl.users_lines import in_users_lines

__all__ = ["register"]

_SECONDS = 600.0
_PROBLEM_FILES = {".yaml", ".yml"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check")(check)


def check(
    file: options.FileArgument,
    kernel: options.KernelOption = "",
    problem: options.ProblemOption = None,
    server: options.ServerOption = "",
    device: options.DeviceOption = options.Device.AUTO,
    as_object: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> int:
    """Find out how strong a problem's own check is.

    Outputs that need no work (zeros, a copy of an input) and the kernel broken in many ways must fail the check. Each
    that passes is shown, with what to change in the problem so that it fails. FILE is the source, or a problem file
    that has the source of the same name beside it.

    The exit code is 0 if nothing slips through, 1 if something does, 3 if a constant passes: such a problem is refused
    everywhere, and 4 if the kernel fails its own check.

    \b
    Examples:
      optimlctl check relu.cu
      optimlctl check relu.yaml --json
    """
    given = read_input(_source(file), kernel, problem or (file if file.suffix in _PROBLEM_FILES else None))
    result = asyncio.run(_check(given, device, server, quiet=quiet))
    if as_object:
        told = MessageToDict(result, preserving_proto_field_name=True)
        typer.echo(json.dumps(told, ensure_ascii=False, allow_nan=False))
    elif not quiet:
        code, submission = given.kernel.source, given.submission
        for line in report(result):
            typer.echo(printable(in_users_lines(line, code, submission.file, submission.text)))
    if result.verdict != verdict_pb2.VERDICT_OK:
        return of_failed_baseline(result.verdict)
    return ExitCode.FAILED if holes(result) else ExitCode.DONE


def _source(file: Path) -> Path:
    return file.with_suffix(".cu") if file.suffix in _PROBLEM_FILES else file


async def _check(
    given: Input, device: options.Device, server: str, *, quiet: bool
) -> profiler_service_pb2.ProblemCheck:
    request = profiler_service_pb2.CheckProblemRequest(
        problem=given.problem, kernel=given.kernel, device=options.device_kind(device)
    )
    async with profiler(server) as stub:
        response: profiler_service_pb2.CheckProblemResponse
        async for response in stub.CheckProblem(request, timeout=_SECONDS):
            if response.HasField("result"):
                return response.result
            if not quiet:
                sys.stderr.write(f"{one_line(response.stage)}\n")
    raise CommandError("the profiler ended the check without a result; try again", ExitCode.UNREACHABLE)

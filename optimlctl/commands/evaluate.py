"""`optimlctl evaluate`: one evaluation of a file's kernel, with nothing edited."""

import asyncio
import json

import typer
from google.protobuf.json_format import MessageToDict

from optiml.v1 import evaluation_pb2, profiler_service_pb2, verdict_pb2
from optimlctl import options
from optimlctl.connection import profiler
from optimlctl.evaluation_report import report
from optimlctl.exit_codes import ExitCode, of_failed_baseline
from optimlctl.failures import CommandError, printable
from optimlctl.input import Input, read_input
from optimlctl.users_lines import in_users_lines

__all__ = ["register"]

_SECONDS = 600.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="evaluate")(evaluate)


def evaluate(
    file: options.FileArgument,
    kernel: options.KernelOption = "",
    problem: options.ProblemOption = None,
    server: options.ServerOption = "",
    device: options.DeviceOption = options.Device.AUTO,
    as_object: options.JsonOption = False,
) -> int:
    """Compile, check, time and count a file's kernel once.

    --server names a profiler, or what `optimlctl up` serves.

    \b
    Examples:
      optimlctl evaluate relu.cu
      optimlctl evaluate relu.cu --device cpu --json
    """
    given = read_input(file, kernel, problem)
    evaluation = asyncio.run(_evaluate(given, device, server))
    if as_object:
        told = MessageToDict(evaluation, preserving_proto_field_name=True)
        typer.echo(json.dumps(told, ensure_ascii=False, allow_nan=False))
    else:
        code, submission = given.kernel.source, given.submission
        for line in report(evaluation):
            typer.echo(printable(in_users_lines(line, code, submission.file, submission.text)))
    return ExitCode.DONE if evaluation.verdict == verdict_pb2.VERDICT_OK else of_failed_baseline(evaluation.verdict)


async def _evaluate(given: Input, device: options.Device, server: str) -> evaluation_pb2.Evaluation:
    request = profiler_service_pb2.EvaluateRequest(
        problem=given.problem, kernel=given.kernel, device=options.device_kind(device)
    )
    async with profiler(server) as stub:
        response: profiler_service_pb2.EvaluateResponse
        async for response in stub.Evaluate(request, timeout=_SECONDS):
            if response.HasField("result"):
                return response.result.evaluation
    raise CommandError("the profiler ended the evaluation without a result; try again", ExitCode.UNREACHABLE)

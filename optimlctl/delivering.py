"""The end of a search as the person gets it: the result folder, a few lines or one JSON object, and the exit code."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from optiml.v1 import search_pb2
from optimlctl import wording
from optimlctl.exit_codes import ExitCode, of_failed_baseline
from optimlctl.failures import CommandError, one_line, printable
from optimlctl.following import Stub, read_log
from optimlctl.input import export
from optimlctl.result_folder import write_result
from optimlctl.submissions import Submission
from optimlctl.summary import summarize
from optimlctl.trajectory import as_json, as_markdown
from optimlctl.users_lines import in_users_lines

__all__ = ["deliver", "exit_code", "result_files"]


async def deliver(
    stub: Stub,
    optimization: search_pb2.Optimization,
    submission: Submission | None,
    *,
    out: Path | None,
    as_object: bool,
    quiet: bool,
) -> ExitCode:
    """Write the results to `out`, if given, and print them.

    Args:
        stub: where the log is read.
        optimization: as it ended, or as far as it got.
        submission: the source file, for the patch; None if this machine does not know it.
        out: the result folder; None writes nothing.
        as_object: print one JSON object in place of lines.
        quiet: print nothing but errors.

    Raises:
        CommandError: the results could not be written; the message says how to get them again.
        grpc.aio.AioRpcError: the log could not be read.
    """
    if out is not None and _has_results(optimization):
        files = result_files(optimization, await read_log(stub, optimization), submission)
        try:
            write_result(out, files)
        except CommandError as error:
            raise CommandError(f"{error}; nothing is lost: `optimlctl get {optimization.id} --out DIR`") from error
    if as_object:
        typer.echo(json.dumps(summarize(optimization), ensure_ascii=False, allow_nan=False))
    elif not quiet:
        for line in _lines(optimization, out):
            typer.echo(printable(line))
    if optimization.HasField("failure"):
        _tell_failure(optimization, submission, quiet=quiet)
    return exit_code(optimization)


def result_files(
    optimization: search_pb2.Optimization, events: Sequence[search_pb2.Event], submission: Submission | None
) -> dict[str, str]:
    """Return the texts of the result folder by file name.

    `best.patch` is left out if nothing was kept, since an empty patch does not apply, or if the source file is unknown.
    """
    exported = export(optimization.best, optimization.baseline, submission) if optimization.chain else None
    unchanged = submission.text if submission else optimization.baseline.source
    file = submission.file if submission else f"{optimization.problem.name or 'kernel'}.cu"
    problem_file = submission.problem_file if submission else None
    files = {
        "best.cu": exported.source if exported else unchanged,
        "trajectory.json": as_json(optimization, events),
        "trajectory.md": as_markdown(optimization, events, file=file, problem_file=problem_file),
    }
    if exported and exported.patch:
        files["best.patch"] = exported.patch
    return files


def exit_code(optimization: search_pb2.Optimization) -> ExitCode:
    """Return the exit code that tells how the optimization ended."""
    if optimization.HasField("failure"):
        return of_failed_baseline(optimization.failure.verdict, optimization.failure.reason)
    return ExitCode.FAILED if optimization.state == search_pb2.OPTIMIZATION_STATE_FAILED else ExitCode.DONE


def _tell_failure(optimization: search_pb2.Optimization, submission: Submission | None, *, quiet: bool) -> None:
    message, log = optimization.failure.message, optimization.failure.log
    if submission is not None:
        code = optimization.baseline.source
        message, log = (in_users_lines(text, code, submission.file, submission.text) for text in (message, log))
    typer.echo(f"error: {one_line(message)}", err=True)
    if log and not quiet:
        typer.echo("\n".join(printable(line) for line in log.splitlines()), err=True)


def _has_results(optimization: search_pb2.Optimization) -> bool:
    return not optimization.HasField("failure") and optimization.HasField("baseline_evaluation")


def _lines(optimization: search_pb2.Optimization, out: Path | None) -> list[str]:
    if optimization.HasField("failure"):
        return []
    name = optimization.problem.name or "kernel"
    state = search_pb2.OptimizationState.Name(optimization.state).removeprefix("OPTIMIZATION_STATE_").lower()
    ended = "" if optimization.state == search_pb2.OPTIMIZATION_STATE_SUCCEEDED else f"{state}, "
    if not optimization.HasField("baseline_evaluation"):
        unwritten = "" if out is None else f"; nothing is written to {out}"
        return [f"{name}: {state}, the input has not been evaluated{unwritten}"]
    where = wording.device(optimization.baseline_evaluation.device)
    before = wording.milliseconds(wording.time_ms(optimization.baseline_evaluation))
    if optimization.chain:
        after = wording.milliseconds(wording.time_ms(optimization.best_evaluation))
        lines = [f"{name}: {ended}{wording.speedup(optimization.comparison)}, {before} → {after}, on {where}"]
    else:
        lines = [f"{name}: {ended}nothing faster found; the input stands at {before}, on {where}"]
    for number, link in enumerate(optimization.chain, start=1):
        title = link.edit.title or wording.edit_name(link.edit)
        lines.append(f"  {number}. {title}: {wording.speedup(link.against_parent)} over its parent")
    if out is not None:
        lines.append(f"results in {out}: read trajectory.md; best.cu is the fastest version")
    return lines

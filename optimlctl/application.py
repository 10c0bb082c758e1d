"""The commands, and every failure as one line and an exit code."""

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import structlog
import typer
from pydantic import ValidationError

from optiml.settings import settings
from optimlctl.commands import cancel, check, doctor, evaluate, get, init, list_, optimize, submit, up, watch
from optimlctl.exit_codes import ExitCode
from optimlctl.failures import one_line, tell
from optimlctl.installed import package_version
from optimlctl.logs import log_path, log_to_file

__all__ = ["run"]

_log = structlog.get_logger(__name__)

app = typer.Typer(
    name="optimlctl",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (optimize, evaluate, check, init, submit, watch, get, list_, cancel, up, doctor):
    command.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"optimlctl {package_version('optiml')}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    """Find the fastest CUDA kernel that can be proven correct and measured faster.

    Start with `optimlctl doctor`, then `optimlctl optimize kernel.cu`.

    Exit codes: 0 done, 1 failed, 2 usage, 3 invalid input, 4 the input kernel does not compile or is wrong, 5 the
    service is unreachable, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: without the program's name; `--debug` counts wherever it stands.

    Returns:
        The exit code. Failures have been told on standard error, in one line.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets "?" for "✓", not a failure
    debug = "--debug" in arguments
    try:
        return _invoke([word for word in arguments if word != "--debug"], level="debug" if debug else None)
    except (KeyboardInterrupt, typer.Abort):
        return _told("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        sys.stdout = None  # else the interpreter complains while it ends
        return ExitCode.FAILED
    except Exception as error:  # noqa: BLE001 - the one place where a failure becomes a line
        return _explain(error, debug=debug)


def _invoke(arguments: Sequence[str], *, level: str | None) -> int:
    log_to_file(level or settings().log_level)
    ended = app(args=arguments, prog_name="optimlctl", standalone_mode=False)
    if ended == ExitCode.INTERRUPTED and not isinstance(ended, ExitCode):  # typer's own answer to Ctrl-C
        raise KeyboardInterrupt
    return int(ended or 0)


def _wrong_setting(error: ValidationError) -> str:
    first = error.errors()[0]
    name = "_".join(["OPTIML", *(str(part).upper() for part in first["loc"])])
    return f"the setting {name} (environment or .env) is wrong: {first['msg']}"


def _usage(error: typer.TyperException) -> str:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    message = message.rstrip(".").replace("Value error, ", "")
    return f"{message}; see `{context.command_path if context else 'optimlctl'} --help`"


def _explain(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    if isinstance(error, ValidationError):
        return _told(_wrong_setting(error), ExitCode.USAGE)
    if isinstance(error, typer.TyperException):
        return _told(_usage(error), ExitCode.USAGE)
    told = tell(error)
    if told is not None:
        return _told(*told)
    _log.error("unexpected", exc_info=error)
    return _told(
        f"this is a bug in OptiML: {type(error).__name__}: {error}; its traceback is in {log_path()}, please report it",
        ExitCode.FAILED,
    )


def _told(message: str, code: ExitCode) -> int:
    sys.stderr.write(f"error: {one_line(message)}\n")
    return code

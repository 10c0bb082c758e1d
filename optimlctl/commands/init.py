"""`optimlctl init`: drafts a problem file from a source file."""

from pathlib import Path
from typing import Annotated

import typer

from optimlctl import options
from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError, write_error
from optimlctl.input import draft
from optimlctl.result_folder import write_file

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="init")(init)


def init(
    file: options.FileArgument,
    kernel: options.KernelOption = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; else FILE's stem with .yaml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> int:
    """Draft the problem file of a kernel: what it computes, for which sizes, and how it is checked.

    Fill in what is marked in it, then run `optimlctl optimize FILE`, which finds it by its name.

    \b
    Examples:
      optimlctl init relu.cu
      optimlctl init gemm.cu --kernel gemm_naive -o gemm.yaml
    """
    target = output or file.with_suffix(".yaml")
    drafted = draft(file, kernel)
    if target.exists() and not force:
        raise CommandError(f"{target} exists; name another file with -o, or overwrite it with --force")
    try:
        write_file(target, drafted.text)
    except OSError as error:
        raise write_error(error, "the problem file", target, "-o") from error
    typer.echo(f"drafted {target}")
    for line in drafted.missing:
        typer.echo(f"to be filled in: {line}")
    return ExitCode.DONE

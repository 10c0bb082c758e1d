"""What the person hands in: a source file and its problem, as the messages that the services take."""

from dataclasses import dataclass
from pathlib import Path

import structlog

from optiml.cuda import exporter
from optiml.cuda.imported import Imported, Missing
from optiml.cuda.importer import import_file
from optiml.cuda.submission import draft_problem_file, submission
from optiml.errors import Error
from optiml.problem_file import load_problem
from optiml.v1 import kernel_pb2, problem_pb2
from optimlctl.launch_comment import with_launches
from optimlctl.source_file import read_text
from optimlctl.submissions import Submission

__all__ = ["Draft", "Input", "draft", "export", "read_input"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Input:
    """A kernel and what it computes."""

    name: str
    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    submission: Submission
    origin: str
    """Where the problem comes from, for the person."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem file that was drafted."""

    text: str
    missing: list[str]
    """What a person must fill in, one line each."""


def read_input(file: Path, kernel: str, problem: Path | None) -> Input:
    """Read a source file and its problem: the named problem file, the one beside the source, or inferred.

    Args:
        file: the `.cu` file.
        kernel: the `__global__` function; empty if the file leaves no choice.
        problem: the problem file; None looks beside the source for one of the same stem.

    Raises:
        CommandError: a file cannot be read.
        InvalidArgumentError: source or problem are wrong or incomplete; the message says where and how to mend it.
    """
    imported = _imported(file, read_text(file, "CUDA source file"), kernel)
    if problem is None and file.with_suffix(".yaml").is_file():
        problem = file.with_suffix(".yaml")
    if problem is None:
        given = submission(imported)
        origin = f"problem inferred from {file}; the kernel itself is the reference"
    else:
        given = submission(imported, load_problem(read_text(problem, "problem file"), str(problem)))
        origin = f"problem of {problem}"
    origin = "; ".join([origin, *given.notes])
    folder = str(file.parent.absolute())
    handed_in = Submission(str(file), folder, imported.text, kernel, str(problem) if problem else None)
    return Input(given.problem.name, given.problem, given.kernel, handed_in, origin)


def _imported(file: Path, text: str, kernel: str) -> Imported:
    return import_file(text, str(file), kernel or None, file.parent)


def draft(file: Path, kernel: str) -> Draft:
    """Draft the problem file of a source file.

    Raises:
        CommandError: the file cannot be read.
        InvalidArgumentError: it holds no kernel, or leaves a choice that nobody made.
    """
    imported = _imported(file, read_text(file, "CUDA source file"), kernel)
    return Draft(draft_problem_file(imported), [_told(missing) for missing in imported.missing])


def _told(missing: Missing) -> str:
    where = f" (line {missing.line})" if missing.line else ""
    return f"{missing.field}{where}: {missing.why}; {missing.hint}"


def export(best: kernel_pb2.Kernel, baseline: kernel_pb2.Kernel, handed_in: Submission | None) -> exporter.Export:
    """Put the best kernel into the person's file.

    Without a submission, or if the kernel cannot be put back (a search was paid for: that must not cost its result),
    the source is the device code with its launches in a comment, and the patch is empty.

    Args:
        best: the kernel to put in.
        baseline: the kernel that was handed in: its launches call things as the problem does, `best` likewise.
        handed_in: the file; None if it is unknown.
    """
    if handed_in is not None:
        path = Path(handed_in.file)
        within = not path.is_absolute() and ".." not in path.parts  # what `patch` accepts
        try:
            imported = import_file(handed_in.text, handed_in.file, handed_in.kernel or None, Path(handed_in.folder))
            imported.kernel.CopyFrom(baseline)
            return exporter.export(imported, best, path.as_posix() if within else path.name)
        except (Error, ValueError, LookupError) as error:
            _log.warning("not put back into the file", file=handed_in.file, exc_info=error)
    return exporter.Export(with_launches(best), "")

"""Problem files and source files together: drafting the one from the other, and joining both."""

from optiml.cuda.assembly import Imported, Missing
from optiml.errors import InvalidArgumentError
from optiml.identity import kernel_id
from optiml.problem import require_valid, validate_kernel, validate_problem
from optiml.problem_file import ProblemFile, dump_problem
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["draft_problem_file", "join", "require_complete"]

_NOTES = {
    "parameters": "Whole numbers that sizes depend on. `{multiple_of: 4}` says that the kernel needs it so.",
    "arguments": (
        "What the kernel reads and writes. role: in, out, inout or scalar.\n"
        "draw: uniform(low, high), normal(mean, deviation), integers(low, high) or a constant.\n"
        "may_be_unwritten: elements that the reference leaves alone need not be written."
    ),
    "sizes": (
        "smoke: small, no multiple of any block; check: realistic; time: what to optimise for.\n"
        "Several time sizes are optimised for their geometric mean."
    ),
    "launch": "How the program launches its kernels; leave this out to take it from the source.",
}


def draft_problem_file(imported: Imported) -> str:
    """Return a commented problem file; what could not be inferred is marked with TODO."""
    head = [f"What {imported.origin} computes, drafted by `optimlctl init`. docs/problem-file.md explains each field."]
    head += [f"TODO {_told(missing)}" for missing in imported.missing]
    head += [f"Note: {note}." for note in imported.notes]
    reference = (
        "The input kernel itself is the reference. Better, since it finds its mistakes too: NumPy statements that\n"
        "assign each output, with inputs as arrays and parameters as numbers, as in\n"
        "reference: |\n"
        "  C = A @ B"
    )
    notes = _NOTES | {"name": "\n".join(head), "reference": reference}
    problem = problem_pb2.Problem()
    problem.CopyFrom(imported.problem)
    return dump_problem(ProblemFile(problem, list(imported.kernel.launches)), notes)


def _told(missing: Missing) -> str:
    where = f" (line {missing.line})" if missing.line else ""
    return f"{missing.field}: {missing.why}{where}; write {missing.hint}"


def require_complete(imported: Imported) -> None:
    """Check that a file alone tells its problem.

    Raises:
        InvalidArgumentError: the first field that is missing, with its line, and how to give it.
    """
    if imported.missing:
        first = imported.missing[0]
        where = f"{imported.origin}:{first.line}" if first.line else imported.origin
        more = f" ({len(imported.missing) - 1} more)" if len(imported.missing) > 1 else ""
        raise InvalidArgumentError(
            f"{where}: {first.field}: {first.why}{more}; `optimlctl init {imported.origin}` drafts a problem file, "
            f"where you write {first.hint}"
        )
    require_valid(validate_problem(imported.problem) + validate_kernel(imported.kernel, imported.problem))


def join(imported: Imported, file: ProblemFile, origin: str) -> tuple[problem_pb2.Problem, kernel_pb2.Kernel]:
    """Return the problem that a problem file states and the kernel that the source holds for it.

    What the problem file leaves out comes from the source: the launches, the reference, sizes.

    Raises:
        InvalidArgumentError: they do not fit each other, or something is still missing.
    """
    problem, kernel = problem_pb2.Problem(), kernel_pb2.Kernel()
    problem.CopyFrom(file.problem)
    kernel.CopyFrom(imported.kernel)
    if file.launches:
        del kernel.launches[:]
        kernel.launches.extend(file.launches)
    elif imported.missing and any(missing.field == "launch" for missing in imported.missing):
        require_complete(imported)
    problem.name = problem.name or imported.problem.name
    for sizes in ("smoke", "check", "time"):
        if not getattr(problem, sizes):
            getattr(problem, sizes).extend(getattr(imported.problem, sizes))
    if problem.reference.WhichOneof("source") is None:
        problem.reference.kernel.CopyFrom(kernel)
    violations = validate_problem(problem)
    if not violations:
        violations = validate_kernel(kernel, problem)
    if violations:
        raise InvalidArgumentError(f"{origin}: {violations[0]}", violations)
    kernel.id = kernel_id(kernel)
    return problem, kernel

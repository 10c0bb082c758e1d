"""A source file and its problem file together: the problem and the kernel that services take."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from optiml import data_types
from optiml.cuda.importer import Imported, Missing
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError
from optiml.identity import kernel_id, problem_id
from optiml.problem import buffer_elements, parameters_of, validate_kernel, validate_problem
from optiml.problem_file import ProblemFile, dump_problem, located
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["Submission", "draft_problem_file", "submission"]


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person hands in."""

    problem: problem_pb2.Problem
    """Complete and valid, with its id."""
    kernel: kernel_pb2.Kernel
    """The baseline, valid under the problem, with its id."""
    notes: list[str] = field(default_factory=list)
    """What a person may want to know."""


def submission(imported: Imported, file: ProblemFile | None = None) -> Submission:
    """Join what a source file and a problem file say; the problem file wins.

    Args:
        imported: the source file.
        file: the problem file; None if the source file says it all.

    Raises:
        InvalidArgumentError: something is missing or wrong; the message is the first violation, with file and line.
    """
    problem, kernel = problem_pb2.Problem(), kernel_pb2.Kernel()
    kernel.CopyFrom(imported.kernel)
    if file is None:
        _require_nothing_missing(imported)
        problem.CopyFrom(imported.problem)
    else:
        problem.CopyFrom(file.problem)
        problem.name = problem.name or imported.problem.name
        if file.launches:
            del kernel.launches[:]
            kernel.launches.extend(file.launches)
        elif holes := [m for m in imported.missing if m.field == "launch"]:
            raise InvalidArgumentError(*_told(imported, holes))
        if file.scratch:
            del kernel.scratch[:]
            kernel.scratch.extend(file.scratch)
    if problem.reference.WhichOneof("source") != "numpy":
        problem.reference.kernel.CopyFrom(kernel)
    _require_valid(imported, file, problem, kernel)
    kernel.id = kernel_id(kernel)
    problem.id = problem_id(problem)
    notes = list(imported.notes)
    if file is not None:
        notes += _differences(imported, file)
    return Submission(problem, kernel, notes)


def _require_nothing_missing(imported: Imported) -> None:
    if imported.missing:
        raise InvalidArgumentError(*_told(imported, imported.missing))


def _told(imported: Imported, missing: list[Missing]) -> tuple[str, list[FieldViolation]]:
    violations = []
    for entry in missing:
        where = f"{imported.origin}:{entry.line}" if entry.line else imported.origin
        violations.append(FieldViolation(entry.field, f"{where}: {entry.field}: {entry.why}; {entry.hint}"))
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    message = f"{violations[0].description}{more}; `optimlctl init {imported.origin}` drafts a problem file to fill in"
    return message, violations


def _require_valid(
    imported: Imported, file: ProblemFile | None, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel
) -> None:
    violations = [v for v in validate_problem(problem) if not v.field.startswith("reference.kernel")]
    if not violations:
        violations = validate_kernel(kernel, problem) + list(_type_mismatches(imported, problem))
    if not violations:
        return
    told = [_located(imported, file, violation) for violation in violations]
    raise InvalidArgumentError(told[0].description, told)


def _located(imported: Imported, file: ProblemFile | None, violation: FieldViolation) -> FieldViolation:
    """Return a violation with the file and line that it is about."""
    launch = re.match(r"kernel\.launches\[(\d+)\]", violation.field)
    if launch and not (file and file.launches) and int(launch.group(1)) < len(imported.launches):
        line = imported.launches[int(launch.group(1))].line
        cure = "name arguments as the kernel does, or write a launch section in the problem file"
        return FieldViolation(violation.field, f"{imported.origin}:{line}: {violation}; {cure}")
    if file is None:
        return FieldViolation(violation.field, f"{imported.origin}: {violation}")
    return located(file, [violation])[0]


def _type_mismatches(imported: Imported, problem: problem_pb2.Problem) -> Iterator[FieldViolation]:
    """Yield arguments whose dtype is not what the kernel's pointer points to."""
    told = {argument.name: argument.data_type for argument in problem.arguments}
    for argument in imported.problem.arguments:
        unknown = any(m.field == f"arguments.{argument.name}.dtype" for m in imported.missing)
        if argument.name in told and told[argument.name] != argument.data_type and not unknown:
            want = data_types.SHORT_NAMES[argument.data_type]
            yield FieldViolation(
                f"arguments.{argument.name}.dtype",
                f"is {data_types.SHORT_NAMES[told[argument.name]]}, but {imported.origin} has {want}; write {want}",
            )


def _differences(imported: Imported, file: ProblemFile) -> Iterator[str]:
    """Yield where a shape of the problem file is not what the source file allocates."""
    told = {argument.name: argument for argument in file.problem.arguments}
    for argument in imported.problem.arguments:
        other = told.get(argument.name)
        if other is None or not argument.shape or not other.shape or not file.problem.time:
            continue
        values = parameters_of(file.problem.time[0])
        try:
            here, there = buffer_elements(other, values), buffer_elements(argument, values)
        except ExpressionError:
            continue  # other parameters: nothing to compare
        if here != there:
            yield (
                f"{argument.name} has {here} elements at {values} in {file.origin}, "
                f"but {imported.origin} allocates {' * '.join(argument.shape)} = {there}"
            )


_COMMENTS = {
    "parameters": "Integers that sizes range over. `{multiple_of: 4}` where the kernel only works for multiples of 4.",
    "arguments": "What the kernel takes. role: in, out, inout or scalar. draw: how inputs are made.",
    "reference": (
        "What the outputs must be, in NumPy (float64); without it, the kernel above is its own reference:\n"
        "reference: |\n  C = A @ B"
    ),
    "tolerance": "tolerance: {absolute: 1e-4, relative: 1e-4}  # derived from dtypes and sizes if left out",
    "sizes": "smoke: small, odd, no multiple of any block. check: moderate. time: what to optimise for.",
    "launch": "How the kernel is launched; sizes are expressions over the parameters.",
}


def draft_problem_file(imported: Imported) -> str:
    """Return the text of a problem file for a person to finish: what was found, and `TODO` where something was not."""
    comments = dict(_COMMENTS)
    comments["name"] = f"What {imported.origin} computes, read off the file. docs/problem-file.md explains each entry."
    for note in imported.notes:
        comments["name"] += f"\nNote: {note}."
    anywhere: list[str] = []
    for entry in imported.missing:
        line = f" (line {entry.line})" if entry.line else ""
        section = entry.field if entry.field in comments else _owner(imported, entry.field)
        todo = f"TODO: {entry.field}: {entry.why}{line}; {entry.hint}"
        if section:
            comments[section] = f"{comments[section]}\n{todo}" if section in comments else todo
        else:
            anywhere.append(todo)
    comments["name"] = "\n".join([comments["name"], *anywhere])
    if not imported.problem.reference.numpy and imported.problem.arguments:
        outputs = [
            a.name for a in imported.problem.arguments if a.role in {problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT}
        ]
        comments["reference"] = _COMMENTS["reference"].replace("C = A @ B", f"{(outputs or ['C'])[0]} = …")
    for argument in imported.problem.arguments:
        if argument.may_be_unwritten:
            key = f"arguments.{argument.name}"
            hint = "Leave `may_be_unwritten` out if every element is written: stricter, and better."
            comments[key] = f"{comments[key]}\n{hint}" if key in comments else hint
    file = ProblemFile(imported.problem, list(imported.kernel.launches), list(imported.kernel.scratch))
    return dump_problem(file, comments)


def _owner(imported: Imported, path: str) -> str:
    """Return the commented entry that a path belongs to."""
    parts = path.split(".")
    if parts[0] == "arguments" and any(a.name == parts[1] for a in imported.problem.arguments):
        return f"arguments.{parts[1]}"
    return "sizes.time" if path.startswith("sizes.time") else parts[0] if parts[0] in _COMMENTS else ""

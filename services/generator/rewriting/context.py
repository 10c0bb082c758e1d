"""What a transformation sees, and how it hands back a candidate."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optiml import expressions
from optiml.v1 import kernel_pb2, problem_pb2, search_pb2, verdict_pb2
from services.generator.rewriting.expressions import NotApplicable, constants_of, host_expression
from services.generator.rewriting.syntax import Declare, Expression, Function, Parameter, decoded, flat
from services.generator.rewriting.threads import Threads, definitions_of, read_threads

__all__ = ["Context", "Replacement", "apply", "indentation", "statement_end"]

Replacement = tuple[int, int, str]
"""Start, end and new text of a part of the file."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_LAUNCH_BOUNDS = re.compile(r"\s*__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")


def apply(text: str, replacements: Iterable[Replacement]) -> str:
    """Return the text with parts replaced; parts must not overlap, insertions at one place keep their order."""
    pieces: list[str] = []
    position = 0
    for start, end, new in sorted(replacements, key=lambda item: item[:2]):
        if start < position:
            raise NotApplicable("two changes of one statement would be needed")
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def indentation(text: str, offset: int) -> str:
    """Return the white space that begins the line of the offset."""
    line = text[text.rfind("\n", 0, offset) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def statement_end(text: str, end: int) -> int:
    """Return the end of a statement with its semicolon, if it has one."""
    found = re.compile(r"\s*;").match(text, end)
    return found.end() if found and text[end - 1] not in "};" else end


@dataclass(frozen=True)
class Context:
    """One kernel function of a candidate, with the launch that runs it."""

    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    function: Function
    launch_index: int
    history: tuple[str, ...] = ()
    constants: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole file, one character a byte."""
        return self.function.text

    @property
    def launch(self) -> kernel_pb2.Launch:
        """The launch that runs the function."""
        return self.kernel.launches[self.launch_index]

    @cached_property
    def threads(self) -> Threads:
        """Coordinates, bounds checks and work of a thread."""
        extents = {axis: (text, self.number(text)) for axis, text in zip("xyz", self.block(), strict=True)}
        return read_threads(self.function, extents, self.constants)

    def block(self) -> list[str]:
        """Return the block's three extents, as expressions."""
        return [*self.launch.block, "1", "1", "1"][:3]

    def grid(self) -> list[str]:
        """Return the grid's three extents, as expressions."""
        return [*self.launch.grid, "1", "1", "1"][:3]

    def number(self, text: str) -> int | None:
        """Return the value of a launch expression that names no parameter, else None."""
        try:
            return expressions.evaluate_integer(text, {})
        except expressions.ExpressionError:
            return None

    @cached_property
    def host_values(self) -> dict[str, str]:
        """What each scalar parameter and each constant of the kernel is, as launch expressions."""
        values = {name: str(value) for name, value in self.constants.items()}
        for parameter, argument in zip(self.function.parameters, self.launch.arguments, strict=False):
            if argument.WhichOneof("value") == "scalar":
                values[parameter.name] = argument.scalar.expression
        return values

    def host(self, expression: Expression) -> str:
        """Return a kernel's integer expression over the problem's parameters.

        Raises:
            NotApplicable: it uses something that the launch plan does not know.
        """
        values = dict(self.host_values)
        for name in expression.names - set(values):
            if name in self.definitions:
                values[name] = self.host(self.definitions[name])
        return host_expression(expression, values)

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        """Integer and pointer locals that have one value."""
        return definitions_of(self.function.body)

    def at_time_size(self, host: str) -> int | None:
        """Return the value of a launch expression at the first size that is timed, if there is one."""
        for size in [*self.problem.time, *self.problem.check, *self.problem.smoke]:
            try:
                return expressions.evaluate_integer(host, dict(size.parameters))
            except expressions.ExpressionError:
                return None
        return None

    def buffer(self, parameter: Parameter) -> str:
        """Return which buffer the launch passes for a pointer; "" if none."""
        index = self.function.parameters.index(parameter)
        return self.launch.arguments[index].buffer if index < len(self.launch.arguments) else ""

    def require_distinct_buffers(self) -> None:
        """Check that no two pointers reach the same memory.

        Raises:
            NotApplicable: a buffer is passed twice.
        """
        buffers = [self.buffer(parameter) for parameter in self.function.parameters if parameter.pointer]
        if len(set(buffers)) != len(buffers):
            raise NotApplicable("the launch passes one buffer twice, so reads and writes may meet")

    def require_unshadowed(self) -> None:
        """Check that each name means one thing in the function.

        Raises:
            NotApplicable: a local hides a parameter.
        """
        parameters = {parameter.name for parameter in self.function.parameters}
        for statement in flat(self.function.body):
            if isinstance(statement, Declare) and statement.name in parameters:
                raise NotApplicable(f"the local `{statement.name}` hides a parameter")

    @cached_property
    def taken(self) -> set[str]:
        """Every word of the file."""
        return set(_WORD.findall(self.text))

    def fresh(self, wanted: str) -> str:
        """Return the wanted name, or one like it that the file does not use."""
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}{number}", number + 1
        return name

    @property
    def header(self) -> str:
        """The function's declaration up to its body, without launch bounds (a new block needs new ones)."""
        return _LAUNCH_BOUNDS.sub("", self.text[self.function.start : self.function.body_start]).rstrip()

    @property
    def before(self) -> int:
        """Where new functions go: before the function's own comment, if it has one."""
        lines_start = self.text.rfind("\n", 0, self.function.start) + 1
        if self.text[lines_start : self.function.start].strip():
            return lines_start  # after `extern "C"`
        while lines_start > 0:
            previous = self.text.rfind("\n", 0, lines_start - 1) + 1
            if not self.text[previous:lines_start].lstrip().startswith("//"):
                break
            lines_start = previous
        return lines_start

    def header_with_bounds(self, threads: int) -> str:
        """Return the declaration with launch bounds of so many threads."""
        name = re.compile(rf"\b{re.escape(self.function.name)}\s*\(")
        return name.sub(f"__launch_bounds__({threads}) {self.function.name}(", self.header, count=1)

    def header_replacement(self) -> Replacement:
        """Replace the declaration by one without launch bounds."""
        return self.function.start, self.function.body_start, self.header + " "

    def edit(
        self,
        source: str,
        *,
        transformation: str,
        title: str,
        rationale: str,
        precondition: str,
        targets: Sequence[verdict_pb2.Bottleneck.ValueType],
        claims: Sequence[tuple[str, search_pb2.Direction.ValueType]],
        prior: float,
        parameters: dict[str, str] | None = None,
        grid: Sequence[str] | None = None,
        block: Sequence[str] | None = None,
    ) -> search_pb2.Edit:
        """Return the edit: the candidate with this source (one character a byte) and, if given, grid and block."""
        kernel = kernel_pb2.Kernel()
        kernel.CopyFrom(self.kernel)
        kernel.id = ""
        kernel.source = decoded(source)
        launch = kernel.launches[self.launch_index]
        if grid is not None:
            launch.grid[:] = grid
        if block is not None:
            launch.block[:] = block
        return search_pb2.Edit(
            transformation=transformation,
            parameters=parameters or {},
            title=title,
            rationale=rationale,
            precondition=precondition,
            targets=targets,
            claims=[search_pb2.Claim(metric=metric, direction=direction) for metric, direction in claims],
            kernel=kernel,
            prior=prior,
        )


def constants(kernel: kernel_pb2.Kernel) -> dict[str, int]:
    """Return the integer macros and constants of the kernel's file."""
    return constants_of(kernel.source)

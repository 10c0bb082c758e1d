"""Builds the problem and the kernel of one file from its launches, allocations and pointer usage."""

import ast
import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field

from clang import cindex
from clang.cindex import Cursor, CursorKind, TypeKind

from optiml import data_types
from optiml.cuda.device_code import Piece, is_global
from optiml.cuda.host_expressions import Host, Unknown, expression, factors_of, substituted, to_text
from optiml.cuda.host_program import Allocation, HostLaunch, HostProgram, buffer_name
from optiml.cuda.index_range import index_range
from optiml.cuda.kernel_usage import Usage, usages
from optiml.cuda.parse import Parsed
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["Assembly", "Imported", "Missing", "is_pointer"]

_VECTORS = {
    "float2": 2,
    "float3": 3,
    "float4": 4,
    "double2": 2,
    "int2": 2,
    "int3": 3,
    "int4": 4,
    "uint2": 2,
    "uint4": 4,
}
_VECTOR_TYPES = {"float": "float", "double": "double", "int": "int", "uint": "unsigned int"}


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that the file does not tell."""

    field: str
    """Path in the problem file, as in "arguments.A.shape"."""
    line: int
    """Line of the source; 0 if none."""
    why: str
    hint: str
    """What to write."""


@dataclass(slots=True)
class Imported:
    """What a file says."""

    origin: str
    text: str
    parsed: Parsed
    cut: list[Piece]
    problem: problem_pb2.Problem = field(default_factory=problem_pb2.Problem)
    kernel: kernel_pb2.Kernel = field(default_factory=kernel_pb2.Kernel)
    launches: list[HostLaunch] = field(default_factory=list)
    """The host's launches, parallel to kernel.launches."""
    host_names: dict[str, str] = field(default_factory=dict)
    """Buffer's name in the problem → the host's variable."""
    missing: list[Missing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def file_line(self, device_line: int) -> int:
        """Return the line of the file that a line of the kernel's source comes from; 0 if it cannot be told."""
        lines = self.kernel.source.splitlines()
        if not 1 <= device_line <= len(lines):
            return 0
        wanted = lines[device_line - 1]
        before = lines[: device_line - 1].count(wanted)
        for number, line in enumerate(self.text.splitlines(), 1):
            if line == wanted:
                if before == 0:
                    return number
                before -= 1
        return 0


def is_pointer(cursor: Cursor) -> bool:
    """Return whether an expression or parameter is a pointer."""
    return bool(cursor.type.get_canonical().kind == TypeKind.POINTER)


class Assembly:
    """Builds problem and kernel of one file from what was read."""

    def __init__(self, result: Imported, program: HostProgram, values: dict[str, int]) -> None:
        self.result = result
        self.program = program
        self.values = values
        self.names: dict[str, str] = {}  # host's variable → argument
        self.usage: dict[str, list[Usage]] = {}  # by host's variable, one a launch
        self.pointees: dict[str, str] = {}
        self.ranges: dict[str, str] = {}
        self.sizes: set[str] = set()  # parameters that sizes or scalars need
        self.scalars: dict[str, problem_pb2.Argument] = {}

    def miss(self, field_name: str, line: int, why: str, hint: str) -> None:
        """Note that something cannot be told."""
        self.result.missing.append(Missing(field_name, line, why, hint))

    def run(self, host: Host) -> None:
        """Fill in the result."""
        for launch in self.result.launches:
            self._launch_arguments(host, launch)
        for name in self.names:
            self._buffer(name)
        self.result.problem.arguments.extend(self.scalars.values())
        for launch, plan in zip(self.result.launches, self.result.kernel.launches, strict=True):
            self._extents(launch, plan)
        for name in self.values:
            if name in self.sizes:
                self.result.problem.parameters.add(name=name)
        _default_sizes(self.result.problem, self.values)
        self.result.problem.reference.kernel.CopyFrom(self.result.kernel)

    def _launch_arguments(self, host: Host, launch: HostLaunch) -> None:
        plan = self.result.kernel.launches.add(kernel=launch.kernel)
        plan.cooperative = False
        parameters = list(launch.function.get_arguments()) or [
            c for c in launch.function.get_children() if c.kind == CursorKind.PARM_DECL
        ]
        used = usages(self.result.parsed, _definition(launch.function))
        for parameter, argument in zip(parameters, launch.arguments, strict=False):
            if is_pointer(parameter):
                variable = buffer_name(argument)
                if variable is None:
                    source = self.result.parsed.source(argument)
                    self.miss(
                        "launch", launch.line, f"cannot tell which buffer {source!r} is", "pass the buffer itself"
                    )
                    variable = parameter.spelling
                self._take_buffer(variable, parameter, used)
                plan.arguments.add(buffer=self.names[variable])
            else:
                plan.arguments.add(scalar=self._scalar(host, launch, parameter, argument))
        for name, usage in used.items():
            if usage.indexes:
                self._range(launch, parameters, name, usage)

    def _take_buffer(self, variable: str, parameter: Cursor, used: dict[str, Usage]) -> None:
        if variable not in self.names:
            name = parameter.spelling or variable
            name += "_" * keyword.iskeyword(name)  # a NumPy reference uses it as a Python name
            self.names[variable] = name if name not in self.names.values() else variable
            self.result.host_names[self.names[variable]] = variable
        self.usage.setdefault(variable, []).append(used.get(parameter.spelling, Usage(reads=True, writes=True)))
        self.pointees.setdefault(variable, parameter.type.get_canonical().get_pointee().spelling)

    def _scalar(self, host: Host, launch: HostLaunch, parameter: Cursor, argument: Cursor) -> kernel_pb2.Scalar:
        data_type = data_types.from_cpp(parameter.type.get_canonical().spelling)
        field_name = f"arguments.{parameter.spelling}"
        if data_type is None:
            self.miss(
                field_name, launch.line, f"has type {parameter.type.spelling!r}", "pass numbers and pointers only"
            )
            return kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression="0")
        try:
            value = expression(host, argument)
        except Unknown as unknown:
            self.miss(field_name, launch.line, str(unknown), f"add {parameter.spelling} with role scalar and a draw")
            return kernel_pb2.Scalar(data_type=data_type, expression=parameter.spelling)
        if data_types.is_float(data_type) and isinstance(value, ast.Constant):
            name = parameter.spelling
            if name not in self.scalars:
                entry = problem_pb2.Argument(name=name, data_type=data_type, role=problem_pb2.ROLE_SCALAR)
                low, high = sorted(float(f"{factor * _number(value):g}") for factor in (0.5, 1.5))
                if low == high:
                    entry.draw.constant = "0"
                else:
                    entry.draw.uniform.low, entry.draw.uniform.high = low, high
                self.scalars[name] = entry
            return kernel_pb2.Scalar(data_type=data_type, expression=name)
        self.sizes |= _names(value)
        return kernel_pb2.Scalar(data_type=data_type, expression=to_text(value))

    def _range(self, launch: HostLaunch, parameters: Sequence[Cursor], name: str, usage: Usage) -> None:
        extent = index_range(self.result.parsed, name, usage.indexes[0])
        for parameter, argument, plan in zip(
            parameters, launch.arguments, self.result.kernel.launches[-1].arguments, strict=False
        ):
            if parameter.spelling == name and (variable := buffer_name(argument)):
                match = [
                    p.scalar.expression
                    for q, p in zip(parameters, self.result.kernel.launches[-1].arguments, strict=False)
                    if q.spelling == extent and p.WhichOneof("value") == "scalar"
                ]
                if match:
                    self.ranges[variable] = match[0]
                elif extent is not None and extent.isdigit():
                    self.ranges[variable] = extent
                else:
                    self.miss(
                        f"arguments.{plan.buffer}.draw", usage.indexes[0].location.line,
                        f"values of {name!r} are indices, and their range cannot be told", "integers(0, N)",
                    )  # fmt: skip

    def _buffer(self, variable: str) -> None:
        name = self.names[variable]
        allocation = self.program.allocations.get(variable)
        uses = self.usage[variable]
        reads_first = _reads_before_writing(uses)
        written = any(usage.writes for usage in uses)
        between = written and not reads_first and any(u.reads and not u.writes for u in uses[1:])
        if between and variable not in self.program.copied_out and self.program.copied_out:
            self._scratch(name, variable, allocation)
            return
        argument = self.result.problem.arguments.add(name=name)
        element = allocation.element if allocation else self.pointees[variable]
        lanes = _VECTORS.get(element, 1)
        scalar = _VECTOR_TYPES[element.rstrip("1234")] if lanes > 1 else element
        data_type = data_types.from_cpp(scalar)
        if data_type is None:
            line = allocation.line if allocation else 0
            self.miss(f"arguments.{name}.dtype", line, f"elements of type {element!r} are not known",
                      f"one of {', '.join(data_types.NAMES)}")  # fmt: skip
            data_type = kernel_pb2.DATA_TYPE_F32
        argument.data_type = data_type
        argument.role = problem_pb2.ROLE_IN
        if written:
            argument.role = problem_pb2.ROLE_INOUT if reads_first else problem_pb2.ROLE_OUT
        argument.may_be_unwritten = argument.role == problem_pb2.ROLE_OUT
        self._shape(argument, allocation, lanes)
        if argument.role != problem_pb2.ROLE_OUT:
            self._draw(argument, variable)

    def _shape(self, argument: problem_pb2.Argument, allocation: Allocation | None, lanes: int) -> None:
        if allocation is None or allocation.elements is None:
            why = allocation.problem if allocation else "no cudaMalloc of it is in the file"
            self.miss(f"arguments.{argument.name}.shape", allocation.line if allocation else 0, why, "[M, K]")
            return
        extents = [to_text(factor) for factor in factors_of(allocation.elements)]
        argument.shape.extend(extents + ([str(lanes)] if lanes > 1 else []))
        self.sizes |= _names(allocation.elements)

    def _draw(self, argument: problem_pb2.Argument, variable: str) -> None:
        if variable in self.program.cleared and argument.role == problem_pb2.ROLE_INOUT:
            argument.draw.constant = "0"
        elif data_types.is_float(argument.data_type):
            argument.draw.uniform.low, argument.draw.uniform.high = -1.0, 1.0
        elif argument.data_type == kernel_pb2.DATA_TYPE_BOOL:
            argument.draw.integers.low, argument.draw.integers.high = "0", "2"
        else:
            signed = data_types.SHORT_NAMES[argument.data_type].startswith("i")
            argument.draw.integers.low = "0" if variable in self.ranges or not signed else "-100"
            argument.draw.integers.high = self.ranges.get(variable, "100")

    def _scratch(self, name: str, variable: str, allocation: Allocation | None) -> None:
        if allocation is None or allocation.elements is None:
            self.miss(f"scratch.{name}", 0, "its size cannot be told", "allocate it with cudaMalloc in this file")
            return
        self.sizes |= _names(allocation.elements)
        data_type = data_types.from_cpp(allocation.element) or kernel_pb2.DATA_TYPE_F32
        self.result.kernel.scratch.add(name=name, data_type=data_type, elements=to_text(allocation.elements))
        self.result.notes.append(f"{variable} is written and read by the kernels only: it is scratch")

    def _extents(self, launch: HostLaunch, plan: kernel_pb2.Launch) -> None:
        if launch.grid is None or launch.block is None:
            self.miss("launch", launch.line, launch.problem, "add a launch section with grid and block")
            return
        fixed = {name: value for name, value in self.values.items() if name not in self.sizes}
        for extents, target in ((launch.grid, plan.grid), (launch.block, plan.block)):
            texts = [to_text(substituted(extent, fixed)) for extent in extents]
            while len(texts) > 1 and texts[-1] == "1":
                texts.pop()
            target.extend(texts)
            for extent in extents:
                self.sizes |= _names(substituted(extent, fixed))
        if launch.shared is not None and (text := to_text(substituted(launch.shared, fixed))) != "0":
            plan.dynamic_shared_memory_bytes = text


def _definition(function: Cursor) -> Cursor:
    """Return the function's definition: of a template instance, the template's, whose body can be walked."""
    definition = function.get_definition() or function
    if not is_global(definition) or not any(c.kind == CursorKind.COMPOUND_STMT for c in definition.get_children()):
        template = cindex.conf.lib.clang_getSpecializedCursorTemplate(function)
        if template is not None and template.kind == CursorKind.FUNCTION_TEMPLATE:
            return template
    return definition


def _reads_before_writing(uses: Sequence[Usage]) -> bool:
    for usage in uses:
        if usage.reads:
            return True
        if usage.writes:
            return False
    return False


def _number(value: ast.Constant) -> float:
    assert isinstance(value.value, int | float)
    return float(value.value)


def _names(value: ast.expr) -> set[str]:
    called = {id(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name) and id(node) not in called}


_SMOKE = {
    1: ([37], [1003]),
    2: ([37, 29], [5, 67]),
    3: ([17, 29, 31], [5, 37, 19]),
    4: ([3, 9, 11, 13], [2, 7, 17, 6]),
}
_CHECK = {1: [65537], 2: [130, 257], 3: [41, 67, 53], 4: [5, 19, 21, 23]}


def _default_sizes(problem: problem_pb2.Problem, values: dict[str, int]) -> None:
    """Fill in sizes: small odd ones that no block divides and that differ in each parameter, and the file's own."""
    names = [parameter.name for parameter in problem.parameters]
    if not names:
        for sizes in (problem.smoke, problem.check, problem.time):
            sizes.add()
        return
    many = min(len(names), 4)
    for sizes, pattern in (
        (problem.smoke, _SMOKE[many][0]),
        (problem.smoke, _SMOKE[many][1]),
        (problem.check, _CHECK[many]),
    ):
        size = sizes.add()
        for index, name in enumerate(names):
            size.parameters[name] = min(pattern[index] if index < len(pattern) else 3 + index % 4, values[name])
    size = problem.time.add()
    for name in names:
        size.parameters[name] = values[name]

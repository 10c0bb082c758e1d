"""Builds the problem and the kernel of one file from its launches, allocations and pointer usage."""

import ast
import math
import re
from collections.abc import Sequence

from clang.cindex import Cursor, CursorKind

from optiml import data_types
from optiml.cuda.cursors import is_pointer
from optiml.cuda.element_types import lanes_of, product_text, quotient_text
from optiml.cuda.expression_algebra import Unknown, factors_of, names_in, substituted, to_text
from optiml.cuda.host import Host, safe_name
from optiml.cuda.host_expressions import expression
from optiml.cuda.host_program import Allocation, HostLaunch, HostProgram, buffer_name
from optiml.cuda.imported import Imported, Missing
from optiml.cuda.index_range import IndexRange, index_range
from optiml.cuda.kernel_functions import definition_of, kernel_name, parameters_of
from optiml.cuda.kernel_usage import Usage, usages
from optiml.cuda.problem_sizes import add_default_sizes
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["Assembly"]


class Assembly:
    """Builds problem and kernel of one file from what was read."""

    def __init__(self, result: Imported, program: HostProgram, host: Host) -> None:
        self.result = result
        self.program = program
        self.host = host
        self.names: dict[str, str] = {}  # host's variable → argument
        self.usage: dict[str, list[Usage]] = {}  # by host's variable, one a launch
        self.pointees: dict[str, str] = {}
        self.ranges: dict[str, str] = {}
        self.sizes: set[str] = set()  # parameters that shapes are made of
        self.divisors: dict[str, int] = {}
        self.scalars: dict[str, problem_pb2.Argument] = {}

    def miss(self, field_name: str, line: int, why: str, hint: str) -> None:
        """Note that something cannot be told."""
        entry = Missing(field_name, line, re.sub(r"^line \d+: ", "", why), hint)
        if entry not in self.result.missing:
            self.result.missing.append(entry)

    def run(self) -> None:
        """Fill in the result."""
        for launch in self.result.launches:
            self._name_buffers(launch)
        for name in self.names:
            self._buffer(name)
        if not self.sizes:
            self.sizes |= {name for launch in self.result.launches for name in self._launch_names(launch)}
        fixed = {name: value for name, value in self.host.values.items() if name not in self.sizes}
        for launch in self.result.launches:
            self._plan(launch, fixed)
        for argument in self.result.problem.arguments:
            if argument.role != problem_pb2.ROLE_OUT:
                self._draw(argument)
        self.result.problem.arguments.extend(self.scalars.values())
        self._parameters()
        self.result.problem.reference.kernel.CopyFrom(self.result.kernel)

    def _parameters(self) -> None:
        used = self.sizes & (self.host.values.keys() | self.host.outside.keys())
        for name in [n for n in (*self.host.values, *self.host.outside) if n in used]:
            self.result.problem.parameters.add(name=name, multiple_of=self.divisors.get(name, 0))
            self.result.places[name] = self.host.places.get(name, "")
            self.result.terms[name] = self.host.terms.get(name, name)
            if name not in self.host.values:
                line, why = self.host.outside[name]
                self.miss(f"sizes.time[0].{name}", line, why, f"write its value, as in {name}: 4096")
        add_default_sizes(self.result.problem, self.host.values)

    def _name_buffers(self, launch: HostLaunch) -> None:
        used = usages(definition_of(launch.function))
        parameters = parameters_of(launch.function)
        if len(parameters) != len(launch.arguments):
            self.miss(
                "launch", launch.line, f"passes {len(launch.arguments)} of {len(parameters)} parameters",
                "write all arguments in a launch section",
            )  # fmt: skip
        for parameter, argument in zip(parameters, launch.arguments, strict=False):
            if not is_pointer(parameter):
                continue
            variable = self._variable(launch, parameter, argument)
            if variable not in self.names:
                self.names[variable] = self._free_name(parameter.spelling, variable)
                self.result.host_names[self.names[variable]] = variable
            self.usage.setdefault(variable, []).append(used.get(parameter.spelling, Usage(reads=True, writes=True)))
            self.pointees.setdefault(variable, parameter.type.get_canonical().get_pointee().get_canonical().spelling)
        for name, usage in used.items():
            if usage.indexes:
                self._range(launch, parameters, name, usage)

    def _variable(self, launch: HostLaunch, parameter: Cursor, argument: Cursor) -> str:
        variable = buffer_name(self.host, argument)
        if variable is None:
            source = " ".join(self.result.parsed.source(argument).split())
            self.miss("launch", launch.line, f"cannot tell which buffer {source[:80]!r} is", "pass the buffer itself")
            return str(parameter.spelling)
        return variable

    def _free_name(self, wanted: str, variable: str) -> str:
        taken = set(self.names.values()) | self.host.values.keys() | self.host.outside.keys()
        for name in (safe_name(wanted or variable), safe_name(re.sub(r"\W+", "_", variable))):
            if name.isidentifier() and name not in taken:
                return name
        name = safe_name(wanted) + "_"
        while name in taken:
            name += "_"
        return name

    def _launch_names(self, launch: HostLaunch) -> set[str]:
        """Return the parameters that a launch's extents and scalars use: all there is if no shape is known."""
        found: set[str] = set()
        for extent in (launch.grid or []) + (launch.block or []):
            found |= names_in(extent)
        for parameter, argument in zip(parameters_of(launch.function), launch.arguments, strict=False):
            if not is_pointer(parameter):
                try:
                    found |= names_in(expression(self.host, argument))
                except Unknown:
                    continue
        return found

    def _plan(self, launch: HostLaunch, fixed: dict[str, int]) -> None:
        if launch.function.kind == CursorKind.FUNCTION_TEMPLATE:
            why = f"{launch.kernel!r} depends on template parameters of the host"
            self.miss("launch", launch.line, why, "write a launch section that names them, as in relu<float>")
        plan = self.result.kernel.launches.add(
            kernel=kernel_name(launch.function, launch.kernel), cooperative=launch.cooperative
        )
        for parameter, argument in zip(parameters_of(launch.function), launch.arguments, strict=False):
            if is_pointer(parameter):
                plan.arguments.add(buffer=self.names[self._variable(launch, parameter, argument)])
            else:
                plan.arguments.add(scalar=self._scalar(launch, parameter, argument, fixed))
        if launch.grid is None or launch.block is None:
            self.miss("launch", launch.line, launch.problem, "write a launch section with grid and block")
            return
        try:
            plan.grid.extend(self._extents(launch.grid, fixed))
            plan.block.extend(self._extents(launch.block, fixed))
            if launch.shared is not None and (text := to_text(substituted(launch.shared, fixed))) != "0":
                plan.dynamic_shared_memory_bytes = text
        except Unknown as unknown:
            self.miss("launch", launch.line, str(unknown), "write a launch section with grid and block")

    def _extents(self, extents: Sequence[ast.expr], fixed: dict[str, int]) -> list[str]:
        texts: list[str] = []
        for extent in extents:
            value = substituted(extent, fixed)
            texts.append(to_text(value))
            self._use(value, divides=True)
        while len(texts) > 1 and texts[-1] == "1":
            texts.pop()
        return texts

    def _use(self, value: ast.expr, *, divides: bool = False) -> None:
        """Note the parameters of a size; `N / 16` as a factor of a grid needs N to be a multiple of 16."""
        self.sizes |= names_in(value)
        for factor in factors_of(value) if divides else ():
            match factor:
                case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=ast.Constant(value=int() as divisor)):
                    self.divisors[name] = math.lcm(self.divisors.get(name, 1), divisor)

    def _scalar(
        self, launch: HostLaunch, parameter: Cursor, argument: Cursor, fixed: dict[str, int]
    ) -> kernel_pb2.Scalar:
        type_name = parameter.type.get_canonical().spelling
        data_type = data_types.from_cpp(type_name)
        if data_type is None:
            why = f"parameter {parameter.spelling!r} has type {type_name!r}; a launch plan passes numbers and pointers"
            self.miss("launch", launch.line, why, "pass its parts as numbers and pointers")
            return kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression="0")
        try:
            value = substituted(expression(self.host, argument), fixed)
            text = to_text(value)
        except Unknown as unknown:
            if not data_types.is_float(data_type):
                return kernel_pb2.Scalar(data_type=data_type, expression=self._outside(parameter, launch, unknown))
            name = self._drawn_scalar(parameter.spelling, data_type, 1.0)
            self.miss(f"arguments.{name}.draw", launch.line, str(unknown), "write uniform(0.5, 1.5), or a constant")
            return kernel_pb2.Scalar(data_type=data_type, expression=name)
        if data_types.is_float(data_type) and isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            return kernel_pb2.Scalar(
                data_type=data_type, expression=self._drawn_scalar(parameter.spelling, data_type, float(value.value))
            )
        self._use(value)
        return kernel_pb2.Scalar(data_type=data_type, expression=text)

    def _outside(self, parameter: Cursor, launch: HostLaunch, unknown: Unknown) -> str:
        """Return the problem's parameter for an integer that the file does not tell."""
        name = safe_name(parameter.spelling)
        while name in self.host.values or name in self.names.values():
            name += "_"
        self.host.outside.setdefault(name, (launch.line, str(unknown)))
        self.sizes.add(name)
        return name

    def _drawn_scalar(self, wanted: str, data_type: data_types.DataType, value: float) -> str:
        """Return the name of a scalar argument that is drawn around the file's value, so that it cannot be left out."""
        name = safe_name(wanted)
        while name in self.names.values() or name in self.sizes:
            name += "_"
        if name in self.scalars:
            return name
        entry = problem_pb2.Argument(name=name, data_type=data_type, role=problem_pb2.ROLE_SCALAR)
        if not data_types.is_float(data_type):
            entry.draw.constant = "1"
        elif value == 0:
            entry.draw.uniform.low, entry.draw.uniform.high = -0.5, 0.5
        else:
            low, high = sorted(float(f"{factor * value:g}") for factor in (0.5, 1.5))
            entry.draw.uniform.low, entry.draw.uniform.high = low, high
        self.scalars[name] = entry
        return name

    def _range(self, launch: HostLaunch, parameters: Sequence[Cursor], name: str, usage: Usage) -> None:
        """Find what bounds the values of an integer buffer that serve as indices."""
        passed = {p.spelling: a for p, a in zip(parameters, launch.arguments, strict=False)}
        variable = buffer_name(self.host, passed[name]) if name in passed else None
        if variable is None:
            return
        scalars = frozenset(p.spelling for p in parameters if not is_pointer(p))
        bound = self._bound(index_range(name, usage.indexes[0], scalars), passed, scalars)
        if bound is not None:
            self.ranges[variable] = bound
            return
        line = usage.indexes[0].location.line
        why = f"values of {name!r} are indices, and their range cannot be told"
        self.miss(f"arguments.{self.names[variable]}.draw", line, why, "write integers(0, N)")

    def _bound(self, found: IndexRange | None, passed: dict[str, Cursor], scalars: frozenset[str]) -> str | None:
        """Return what bounds the values, in the problem's terms."""
        if found is None:
            return None
        try:
            values = {s: to_text(expression(self.host, passed[s])) for s in scalars & {*found.below, *found.over}}
        except Unknown:
            return None
        if found.below:
            return product_text([values.get(atom, atom) for atom in found.below])
        target = self.program.allocations.get(buffer_name(self.host, passed[found.buffer]) or "")
        if target is None or target.elements is None:
            return None
        return quotient_text(target.elements, [values.get(atom, atom) for atom in found.over])

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
        element = allocation.element if allocation and allocation.element != "void" else self.pointees[variable]
        scalar, lanes = lanes_of(element.removeprefix("const ").removeprefix("volatile ").strip())
        data_type = data_types.from_cpp(scalar)
        if data_type is None:
            line = allocation.line if allocation else 0
            self.miss(f"arguments.{name}.dtype", line, f"elements of type {element!r} are not known",
                      f"write one of {', '.join(data_types.NAMES)}")  # fmt: skip
            data_type = kernel_pb2.DATA_TYPE_F32
        argument.data_type = data_type
        argument.role = problem_pb2.ROLE_IN
        if written:
            argument.role = problem_pb2.ROLE_INOUT if reads_first else problem_pb2.ROLE_OUT
        argument.may_be_unwritten = argument.role == problem_pb2.ROLE_OUT
        self._shape(argument, allocation, lanes)

    def _shape(self, argument: problem_pb2.Argument, allocation: Allocation | None, lanes: int) -> None:
        if allocation is None or allocation.elements is None:
            why = allocation.problem if allocation else "no cudaMalloc of it is in the file"
            line = allocation.line if allocation else self.result.launches[0].line
            self.miss(f"arguments.{argument.name}.shape", line, why, "write its extents, as in [M, K]")
            return
        extents = [to_text(factor) for factor in factors_of(allocation.elements)]
        argument.shape.extend(extents + ([str(lanes)] if lanes > 1 else []))
        self._use(allocation.elements, divides=lanes > 1)

    def _draw(self, argument: problem_pb2.Argument) -> None:
        variable = self.result.host_names[argument.name]
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
        self._use(allocation.elements)
        scalar, lanes = lanes_of(allocation.element)
        data_type = data_types.from_cpp(scalar) or kernel_pb2.DATA_TYPE_F32
        elements = to_text(allocation.elements) if lanes == 1 else f"({to_text(allocation.elements)}) * {lanes}"
        self.result.kernel.scratch.add(name=name, data_type=data_type, elements=elements)
        self.result.notes.append(f"{variable} is written and read by the kernels only: it is scratch")


def _reads_before_writing(uses: Sequence[Usage]) -> bool:
    for usage in uses:
        if usage.reads:
            return True
        if usage.writes:
            return False
    return False

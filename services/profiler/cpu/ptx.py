"""What a PTX module consists of, and the error for what the executor does not run."""

from dataclasses import dataclass, field


class UnsupportedPtx(Exception):  # noqa: N818  it states what the text is, as the verdict does
    """PTX that this executor does not run.

    Attributes:
        opcode: The opcode or feature that is not known.
        line: Line of the CUDA source, 0 if unknown.
    """

    def __init__(self, opcode: str, line: int = 0, reason: str = "") -> None:
        self.opcode = opcode
        self.line = line
        why = f": {reason}" if reason else ""
        super().__init__(f"{opcode} (source line {line or 'unknown'}) does not run on the CPU executor{why}")


@dataclass(frozen=True, slots=True)
class Register:
    """A register; `name` is unique in its function."""

    name: str
    type: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that is no register: a variable, parameter, function, label or special register."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`."""

    base: "Register | Symbol | Immediate"
    offset: int


@dataclass(frozen=True, slots=True)
class Group:
    """`{a, b}`, `(a, b)` or `a|b`, told apart by `kind`: the opening character."""

    kind: str
    items: "tuple[Operand, ...]"


Operand = Register | Immediate | Symbol | Address | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `opcode` holds all modifiers."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of any space; sizes in bytes. `initial` holds one entry an element: a number or an address."""

    name: str
    space: str
    type: str
    align: int
    bytes: int
    initial: tuple[str, ...] = ()
    extern: bool = False


@dataclass(slots=True)
class Function:
    """An entry or a device function with its body."""

    name: str
    is_entry: bool
    parameters: list[Variable]
    returns: list[Variable]
    body: list[Instruction | Label] | None = None
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    threads_max: int = 0  # from __launch_bounds__; 0: not given
    threads_exact: tuple[int, ...] = ()  # from __block_size__
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A whole PTX text."""

    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

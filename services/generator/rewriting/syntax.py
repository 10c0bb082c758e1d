"""The part of CUDA C++ that transformations reason about, as small immutable trees.

Offsets count bytes of UTF-8, as libclang does. Texts that are cut by them are held as Latin-1 strings, one character a
byte, so that slices and offsets agree; `encoded` and `decoded` convert.
"""

from dataclasses import dataclass, field

__all__ = [
    "Array",
    "Assign",
    "Block",
    "Call",
    "Declare",
    "Expression",
    "For",
    "Function",
    "If",
    "Other",
    "Parameter",
    "Return",
    "Statement",
    "decoded",
    "encoded",
    "flat",
]


def encoded(text: str) -> str:
    """Return the text with one character for each UTF-8 byte."""
    return text.encode().decode("latin-1")


def decoded(text: str) -> str:
    """Undo `encoded`."""
    return text.encode("latin-1").decode()


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression; parentheses and implicit conversions are looked through."""

    kind: str
    """name, number, binary, unary, postfix, call, subscript, member, cast, conditional, assign or other."""
    text: str
    """As written."""
    type: str
    """Type without qualifiers, as in "float"."""
    operator: str = ""
    """The operator; the name of a name, member or called function; the type of a cast."""
    operands: tuple["Expression", ...] = ()
    names: frozenset[str] = frozenset()
    """Variables that it refers to, also through macros; CUDA's own as "threadIdx"."""
    start: int = 0
    end: int = 0
    hidden: bool = False
    """True if a macro hides a variable's name, so that it cannot be renamed in the text."""


@dataclass(frozen=True, slots=True)
class Declare:
    """`type name = value;` of one scalar or pointer."""

    name: str
    type: str
    value: Expression | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assign:
    """`target operator value;`; `x++` is `x += 1`."""

    target: Expression
    operator: str
    value: Expression
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call for its effect, as in `__syncthreads();`."""

    call: Expression
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class If:
    """`if (condition) then else otherwise`."""

    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class For:
    """`for (type variable = first; variable relation bound; variable += step)` that counts up."""

    variable: str
    type: str
    first: Expression
    relation: str
    bound: Expression
    step: Expression | None
    """None is one."""
    body: tuple["Statement", ...]
    start: int
    end: int
    body_start: int


@dataclass(frozen=True, slots=True)
class Return:
    """`return;`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """Statements in braces that belong to nothing else."""

    body: tuple["Statement", ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Array:
    """`element name[extent];`: a thread's own array, without initial values."""

    name: str
    element: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else: shared memory, while loops, loops that count down."""

    text: str
    names: frozenset[str]
    start: int
    end: int


Statement = Declare | Assign | Call | If | For | Return | Block | Array | Other


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: str
    """As clang spells it, as in "const float *__restrict"."""
    start: int
    end: int

    @property
    def pointer(self) -> bool:
        """Whether it is a pointer."""
        return "*" in self.type

    @property
    def element(self) -> str:
        """Type without qualifiers, of what it points to if it is a pointer."""
        words = self.type.replace("*", " ").replace("__restrict", " ").split()
        return " ".join(word for word in words if word not in {"const", "volatile"})


@dataclass(frozen=True, slots=True)
class Function:
    """A __global__ function."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    start: int
    """Where the declaration begins."""
    body_start: int
    """At the opening brace."""
    end: int
    """After the closing brace."""
    text: str = field(repr=False)
    """The whole file, encoded."""

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of this name, if there is one."""
        return next((found for found in self.parameters if found.name == name), None)


def flat(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return the statements and all inside them, outer ones first."""
    found: list[Statement] = []
    for statement in statements:
        found.append(statement)
        match statement:
            case For() | Block():
                found.extend(flat(statement.body))
            case If():
                found.extend(flat(statement.then))
                found.extend(flat(statement.otherwise))
    return tuple(found)

"""State and operand rendering for the translation of one function to C++."""

from dataclasses import dataclass, field

from services.profiler.cpu.ptx import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    UnsupportedPtx,
    Variable,
)

# PTX type -> (tag in runtime/types.h, C++ type of a register that holds it).
_BITS = {"8": "u8", "16": "u16", "32": "u32", "64": "u64"}
TAGS: dict[str, tuple[str, str]] = {
    "pred": ("pred", "bool"),
    "f16": ("f16", "u16"),
    "bf16": ("bf16", "u16"),
    "f32": ("f32", "float"),
    "f64": ("f64", "double"),
    "f16x2": ("f16x2", "u32"),
    "bf16x2": ("bf16x2", "u32"),
    "u16x2": ("u16x2", "u32"),
    "s16x2": ("s16x2", "u32"),
}
TAGS |= {f"{kind}{size}": (f"{kind}{size}", bits) for kind in "bs" for size, bits in _BITS.items()}
TAGS |= {f"u{size}": (f"u{size}_", bits) for size, bits in _BITS.items()}
C_BYTES = {"bool": 1, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "float": 4, "double": 8}
TYPE_BYTES = {name: C_BYTES[c] for name, (_, c) in TAGS.items()}

SPECIAL = {f"%tid.{axis}": f"t->tid[{i}]" for i, axis in enumerate("xyz")}
SPECIAL |= {f"%ntid.{axis}": f"t->launch->block[{i}]" for i, axis in enumerate("xyz")}
SPECIAL |= {f"%ctaid.{axis}": f"t->ctaid[{i}]" for i, axis in enumerate("xyz")}
SPECIAL |= {f"%nctaid.{axis}": f"t->launch->grid[{i}]" for i, axis in enumerate("xyz")}
SPECIAL |= {
    "%laneid": "t->lane",
    "%warpid": "(t->linear / WARP)",
    "%nwarpid": "64u",
    "%smid": "0u",
    "%nsmid": "1u",
    "%gridid": "0u",
    "%lanemask_eq": "(1u << t->lane)",
    "%lanemask_lt": "((1u << t->lane) - 1)",
    "%lanemask_le": "((2u << t->lane) - 1)",
    "%lanemask_gt": "(~((2u << t->lane) - 1))",
    "%lanemask_ge": "(~((1u << t->lane) - 1))",
    "%clock": "((u32)rt_clock(t))",
    "%clock_hi": "((u32)(rt_clock(t) >> 32))",
    "%dynamic_smem_size": "((u32)t->shared_bytes - (t->dynamic_shared - SHARED_START))",
    "%total_smem_size": "((u32)t->shared_bytes)",
    "%clusterid.x": "t->ctaid[0]",
    "%cluster_nctarank": "1u",
    "%cluster_ctarank": "0u",
    # The address of the workspace for grid-wide barriers, upper half first.
    "%envreg1": "((u32)(t->launch->grid_workspace >> 32))",
    "%envreg2": "((u32)t->launch->grid_workspace)",
    "WARP_SZ": "32u",
}
SPECIAL_64 = {"%clock64": "rt_clock(t)", "%globaltimer": "rt_global_timer(t)"}


@dataclass(slots=True)
class Tables:
    """What all functions of a module share while it is translated.

    Attributes:
        variables: Module-scope variables by name.
        functions: All functions by name.
        offsets: Place of each .global and .const variable in the module's memory, bytes.
        shared: Shared address of each static shared variable.
        sites: C++ initialiser of each access site.
        blocks: Opcodes of each basic block.
        indices: C++ name of each function.
    """

    variables: dict[str, Variable]
    functions: dict[str, Function]
    offsets: dict[str, int]
    shared: dict[str, int] = field(default_factory=dict)
    sites: list[str] = field(default_factory=list)
    blocks: list[list[str]] = field(default_factory=list)
    indices: dict[str, str] = field(default_factory=dict)


class Emitter:
    """Renders operands and collects C++ lines for one function."""

    def __init__(self, function: Function, tables: Tables) -> None:
        self.function = function
        self.tables = tables
        self.lines: list[str] = []
        self.instruction = Instruction("", (), None, 0)
        self.parameters: dict[str, tuple[str, int]] = {}  # name -> (C++ address, bytes)
        self.labels: dict[str, int] = {}
        self.merged: dict[int, int] = {}  # see merging.py
        self.passed: set[str] = set()  # labels that were already emitted: a branch to one goes back
        self.calls: set[str] = set()
        self.sums: dict[str, tuple[str, int]] = {}  # register -> register and constant that it is the sum of
        self.swapped: set[tuple[str, int]] = set()  # addresses of compare-and-swap, as `place` gives them
        self.barriers = 0
        self.needs_fibres = False

    def unsupported(self, reason: str = "") -> UnsupportedPtx:
        """The error that refuses the current instruction."""
        return UnsupportedPtx(self.instruction.opcode, self.instruction.line, reason)

    def site(self, size: int, space: str, access: str, order: str = "WEAK") -> str:
        """Adds an access site and returns its address in C++."""
        merged = self.merged.get(id(self.instruction), 0)
        self.tables.sites.append(f"{{0, 0, {self.instruction.line}, {size}, {space}, {access}, {order}, {merged}}}")
        return f"&sites[{len(self.tables.sites) - 1}]"

    def read(self, operand: Operand, kind: str, *, wider: bool = False) -> str:
        """C++ expression for the operand's value, of the C++ type that registers of PTX type `kind` have.

        Args:
            operand: What to read.
            kind: The instruction's type.
            wider: Whether the register may be wider than the type: for st and cvt.
        """
        c = TAGS[kind][1]
        if isinstance(operand, Register):
            return self._read_register(operand, c, wider=wider)
        if isinstance(operand, Immediate):
            return self.number(operand.text, c)
        if isinstance(operand, Symbol):
            return self._read_symbol(operand.name, c)
        raise self.unsupported("operand of an unexpected form")

    def _read_register(self, register: Register, c: str, *, wider: bool) -> str:
        have = TAGS[register.type][1]
        name = f"R_{register.name}"
        if register.negated:
            name = f"(!{name})"
        if have == c:
            return name
        if "bool" in {have, c} or C_BYTES[have] < C_BYTES[c]:
            raise self.unsupported(f"register of type {register.type} where {c} is read")
        if C_BYTES[have] == C_BYTES[c]:
            return f"bits<{c}>({name})"
        if not wider:
            raise self.unsupported(f"register of type {register.type} where {c} is read")
        raw = name if have.startswith("u") else f"bits<u{8 * C_BYTES[have]}>({name})"
        narrow = f"u{8 * C_BYTES[c]}"
        return f"({narrow}){raw}" if narrow == c else f"bits<{c}>(({narrow}){raw})"

    def number(self, text: str, c: str) -> str:
        """A literal as C++ constant of type `c`."""
        if text[:2] in {"0f", "0F"} and c in {"float", "u32"}:
            return f"bits<{c}>(0x{text[2:]}u)"
        if text[:2] in {"0d", "0D"} and c in {"double", "u64"}:
            return f"bits<{c}>((u64)0x{text[2:]}ull)"
        if text[:2] in {"0f", "0F", "0d", "0D"}:
            raise self.unsupported(f"constant {text} where {c} is read")
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        value = int(digits.rstrip("U"), 8 if digits[0] == "0" and digits[1:].isdigit() else 0)
        value = -value if sign else value
        if c == "bool":
            return "true" if value else "false"
        size = C_BYTES[c]
        raw = f"(u{8 * size}){value & ((1 << (8 * size)) - 1):#x}{'ull' if size == 8 else 'u'}"
        return f"bits<{c}>({raw})" if c in {"float", "double"} else f"({raw})"

    def _read_symbol(self, name: str, c: str) -> str:
        if name in SPECIAL_64:
            return self._resize(SPECIAL_64[name], 8, c)
        if name in SPECIAL:
            return self._resize(SPECIAL[name], 4, c)
        return self._resize(self.symbol_address(name), 8, c)

    def _resize(self, expression: str, size: int, c: str) -> str:
        if c in {"u32", "u64", "u16"}:
            return f"(({c}){expression})"
        if c == "float" and size == 4:
            return f"bits<float>((u32){expression})"
        raise self.unsupported("special register or address of an unexpected type")

    def symbol_address(self, name: str) -> str:
        """Address of a variable in its own state space, as u64."""
        if name in self.parameters:
            if not self.function.is_entry:
                raise self.unsupported("address of a device function's parameter")
            return f"((u64)({self.parameters[name][0]}))"
        variable = self.function.variables.get(name) or self.tables.variables.get(name)
        if variable is None:
            raise self.unsupported(f"name {name}")
        if variable.space == "local":
            return f"((u64)depot_{list(self.function.variables).index(name)})"
        if variable.space == "shared":
            return "((u64)t->dynamic_shared)" if variable.bytes == 0 else f"((u64){self.tables.shared[name]})"
        if variable.space in {"global", "const"} and not variable.extern:
            return f"(module_memory + {self.tables.offsets[name]})"
        raise self.unsupported(f"address of {variable.space} variable {name}")

    def address(self, operand: Operand) -> str:
        """C++ expression (u64) for `[base+offset]`."""
        if not isinstance(operand, Address):
            raise self.unsupported("address expected")
        base = operand.base
        if isinstance(base, Register) and TAGS[base.type][1] == "u32":
            return f"((u64)(u32)({self.read(base, 'u32')} + {operand.offset}))"
        value = self.read(base, "u64")
        return f"({value} + (u64)({operand.offset}ll))" if operand.offset else value

    def find_swaps(self) -> None:
        """Notes which addresses are the target of compare-and-swap."""
        instructions = [item for item in self.function.body or () if isinstance(item, Instruction)]
        for item in instructions:
            match item.opcode.split("."), item.operands:
                case ["add", "s64" | "u64"], (Register(name), Register(base), Immediate(text)):
                    self.sums[name] = (base, int(text, 0))
        for item in instructions:
            if item.opcode.startswith("atom.") and ".cas" in item.opcode:
                self.swapped.add(self.place(item.operands[1]))

    def place(self, operand: Operand) -> tuple[str, int]:
        """An address as register or symbol and constant, with known sums taken apart."""
        if not isinstance(operand, Address) or isinstance(operand.base, Immediate):
            return "", 0
        name, offset = operand.base.name, operand.offset
        for _ in range(8):
            base, constant = self.sums.get(name, ("", 0))
            if not base:
                break
            name, offset = base, offset + constant
        return name, offset

    def write(self, operand: Operand, expression: str, kind: str, *, wider: bool = False) -> str:
        """C++ statement that assigns a value of PTX type `kind`.

        Args:
            operand: The register, or `_`.
            expression: The value in C++.
            kind: Its PTX type.
            wider: Whether the register may be wider: for ld and cvt, which extend by the type's signedness.
        """
        if isinstance(operand, Symbol) and operand.name == "_":
            return f"(void)({expression});"
        if not isinstance(operand, Register):
            raise self.unsupported("destination is no register")
        tag, c = TAGS[kind]
        have = TAGS[operand.type][1]
        if have == c:
            return f"R_{operand.name} = {expression};"
        if "bool" in {have, c} or C_BYTES[have] < C_BYTES[c] or (C_BYTES[have] > C_BYTES[c] and not wider):
            raise self.unsupported(f"result of type {kind} in a register of type {operand.type}")
        return f"R_{operand.name} = widen<{have}, {tag}>({expression});"

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """Elements of a vector operand; a scalar is a vector of one."""
        return operand.items if isinstance(operand, Group) and operand.kind == "{" else (operand,)

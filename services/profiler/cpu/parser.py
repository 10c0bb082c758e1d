"""Reads PTX text into variables, functions and instructions.

Only the structure is read here: what an opcode means, and whether it is known at all, is decided by
`services.profiler.cpu.translate`. Grammar: NVIDIA's PTX ISA 9.0, chapters 4 and 5.
"""

import math
import re

from services.profiler.cpu.ptx import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Symbol,
    UnsupportedPtx,
    Variable,
)

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"'
    r"|0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?"
    r"|[A-Za-z_$%.](?:[\w$%.]|::)*"
    r"|[^\s]",
    re.ASCII,
)
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
# Written without a space by some inline assembly: `.reg.b32 x;`.
_JOINED_TYPE = re.compile(r"(?<![\w.])(\.(?:reg|param|local|shared|global|const))(?=\.)")
_LINE_DIRECTIVE = re.compile(r"^[ \t]*\.(?:loc|file|version|target|address_size)\b[^\n;]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_$%][\w$%]*", re.ASCII)
# What may stand between a function's parameters and its body: bounds for the register allocator.
_BOUNDS = {".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn"}
# A register bank larger than this is no compiler's output.
_REGISTERS_MAX = 100_000
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def parse(ptx: str) -> Module:
    """Parses PTX text.

    Raises:
        UnsupportedPtx: Something in the text is not part of the grammar that is read here.
    """
    text = _COMMENT.sub(lambda m: m.group() if m.group().startswith('"') else " ", ptx)
    text = _LINE_DIRECTIVE.sub(lambda m: m.group() + ";", text)
    text = _JOINED_TYPE.sub(r"\1 ", text)
    parser = _Parser(_TOKEN.findall(text))
    try:
        return parser.module()
    except ValueError as error:
        raise UnsupportedPtx(parser.peek(), parser.line, "a number was expected") from error


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.line = 0
        self.candidate_file = ""
        self.scopes: list[dict[str, tuple[str, str]]] = []
        self.scope_ids: list[int] = []
        self.scope_count = 0

    # Tokens

    def peek(self, ahead: int = 0) -> str:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else ""

    def next(self) -> str:
        word = self.peek()
        if not word:
            raise UnsupportedPtx("end of text", self.line, "the PTX ends too early")
        self.position += 1
        return word

    def accept(self, word: str) -> bool:
        if self.peek() == word:
            self.position += 1
            return True
        return False

    def expect(self, word: str) -> None:
        found = self.next()
        if found != word:
            raise UnsupportedPtx(found, self.line, f"expected {word!r}")

    def _new_name(self) -> str:
        name = self.next()
        if not _NAME.fullmatch(name):
            raise UnsupportedPtx(name, self.line, "no name")
        return name

    def until(self, end: str) -> list[str]:
        taken = []
        while (word := self.next()) != end:
            taken.append(word)
        return taken

    # Module

    def module(self) -> Module:
        module = Module()
        while self.peek():
            word = self.peek()
            if word in {".version", ".target", ".address_size", ".file", ".pragma"}:
                self.until(";")
            elif word == ".section":
                self.until("{")
                self.until("}")
            elif word in _LINKAGE | {".entry", ".func", ".global", ".const", ".shared"}:
                self._declaration(module)
            else:
                raise UnsupportedPtx(word, self.line, "unknown directive")
        return module

    def _declaration(self, module: Module) -> None:
        extern = False
        while self.peek() in _LINKAGE:
            extern |= self.next() == ".extern"
        if self.peek() in {".entry", ".func"}:
            function = self._function()
            known = module.functions.get(function.name)
            if known is None or known.body is None:
                module.functions[function.name] = function
        else:
            variable = self._variable(self.next()[1:], extern=extern)
            self.expect(";")
            module.variables[variable.name] = variable

    def _variable(self, space: str, *, extern: bool = False) -> Variable:
        align, kind, vector = self._variable_type()
        name = self._new_name()
        element = _type_bytes(kind) * vector
        count, open_ended = 1, False
        while self.accept("["):
            size = self.until("]")
            open_ended |= not size
            count *= int(size[0]) if size else 0
        initial = self._initialiser() if self.accept("=") else ()
        if open_ended and initial:
            count = len(initial)
        return Variable(name, space, kind, max(align, element), element * count, initial, extern=extern)

    def _variable_type(self) -> tuple[int, str, int]:
        """Alignment, element type and vector length."""
        align, kind, vector = 0, "", 1
        while (word := self.peek()).startswith("."):
            self.next()
            if word == ".align":
                align = int(self.next())
            elif word in {".v2", ".v4"}:
                vector = int(word[2])
            elif re.fullmatch(r"\.(?:[busf](?:8|16|32|64|128)|f16x2|bf16|bf16x2|pred)", word):
                kind = word[1:]
            elif word not in {".ptr", ".global", ".const", ".shared", ".local"}:
                raise UnsupportedPtx(word, self.line, "unknown type of a variable")
        if align & (align - 1):
            raise UnsupportedPtx(f".align {align}", self.line, "no power of two")
        return align, kind, vector

    def _initialiser(self) -> tuple[str, ...]:
        values, depth, current = [], 0, ""
        while self.peek() != ";":
            word = self.next()
            depth += (word == "{") - (word == "}")
            if word in "{}":
                continue
            if word == ",":
                values.append(current)
                current = ""
            else:
                current += word
        return (*values, current) if current else tuple(values)

    def _function(self) -> Function:
        is_entry = self.next() == ".entry"
        returns = self._parameters() if self.peek() == "(" else []
        name = self._new_name()
        parameters = self._parameters() if self.peek() == "(" else []
        function = Function(name, is_entry, parameters, returns)
        while self.peek() not in {"{", ";"}:
            self._bound(function)
        if not self.accept(";"):
            self._body(function)
        return function

    def _bound(self, function: Function) -> None:
        """Reads what stands between parameters and body: bounds of a launch and of the register allocator."""
        bound = self.next()
        if bound not in _BOUNDS:
            raise UnsupportedPtx(bound, self.line, "not known on a function")
        numbers = [int(self.next())] if self.peek().isdigit() else []
        while numbers and self.accept(","):
            numbers.append(int(self.next()))
        if bound == ".maxntid":
            function.threads_max = math.prod(numbers)
        elif bound == ".reqntid":
            function.threads_exact = (*numbers, 1, 1)[:3]

    def _parameters(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            space = self.next()
            if space != ".param":
                raise UnsupportedPtx(f"{space} parameter", self.line, "only .param parameters are passed")
            found.append(self._variable("param"))
            self.accept(",")
        return found

    # Bodies

    def _body(self, function: Function) -> None:
        function.body = []
        self.line, self.candidate_file = 0, self.candidate_file if not function.is_entry else ""
        self.expect("{")
        self.scopes, self.scope_ids, self.scope_count = [{}], [0], 0
        while self.scopes:
            self._statement(function)

    def _statement(self, function: Function) -> None:
        assert function.body is not None
        word = self.peek()
        if word in {"{", "}", ";"}:
            self.next()
            self._scope(word)
        elif word == ".loc":
            self._loc(self.until(";"))
        elif word == ".reg":
            self.next()
            self._registers(function)
        elif word in {".local", ".shared", ".param"}:
            self.next()
            self._local_variable(function, word[1:])
        elif word in {".pragma", ".file"}:
            self.until(";")
        elif self.peek(1) == ":":
            self.position += 2
            self._label(function, word)
        else:
            function.body.append(self._instruction())

    def _scope(self, word: str) -> None:
        if word == "{":
            self.scope_count += 1
            self.scopes.append({})
            self.scope_ids.append(self.scope_count)
        elif word == "}":
            self.scopes.pop()
            self.scope_ids.pop()

    def _label(self, function: Function, name: str) -> None:
        assert function.body is not None
        if self.accept(".branchtargets"):
            function.branch_targets[name] = tuple(word for word in self.until(";") if word != ",")
        elif self.peek() in {".calltargets", ".callprototype"}:
            raise UnsupportedPtx(self.peek()[1:], self.line, "indirect calls")
        else:
            function.body.append(Label(self._scoped_label(name)))

    def _loc(self, tokens: list[str]) -> None:
        """Keeps the line of the candidate's own file; what is inlined from elsewhere counts for its call site."""
        file, line = tokens[1], int(tokens[2])
        self.candidate_file = self.candidate_file or file
        if file == self.candidate_file:
            self.line = line or self.line
        elif "inlined_at" in tokens:
            at = tokens.index("inlined_at")
            if tokens[at + 1] == self.candidate_file:
                self.line = int(tokens[at + 2]) or self.line

    def _registers(self, function: Function) -> None:
        kind = self.next()[1:]
        while not self.accept(";"):
            name = self.next()
            if self.accept("<"):
                count = int(self.next())
                self.expect(">")
                if count > _REGISTERS_MAX:
                    raise UnsupportedPtx(f"{name}<{count}>", self.line, "too many registers")
                for index in range(count):
                    self._declare(function, f"{name}{index}", kind)
            else:
                self._declare(function, name, kind)
            self.accept(",")

    def _declare(self, function: Function, name: str, kind: str) -> None:
        suffix = f"_{self.scope_ids[-1]}" if len(self.scopes) > 1 else ""
        unique = re.sub(r"\W", "_", name.lstrip("%")) + suffix
        while function.registers.get(unique, kind) != kind:
            unique += "_"
        self.scopes[-1][name] = (unique, kind)
        function.registers[unique] = kind

    def _local_variable(self, function: Function, space: str) -> None:
        while True:
            variable = self._variable(space)
            unique = f"{variable.name}@{self.scope_ids[-1]}" if space == "param" else variable.name
            self.scopes[-1][variable.name] = (unique, f".{space}")
            function.variables[unique] = variable
            if not self.accept(","):
                break
        self.expect(";")

    def _scoped_label(self, name: str) -> str:
        """Labels of inline assembly blocks are repeated; those of the compiler are unique."""
        return name if name.startswith("$") or len(self.scopes) == 1 else f"{name}@{self.scope_ids[-1]}"

    def _instruction(self) -> Instruction:
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            register = self._operand()
            if not isinstance(register, Register):
                raise UnsupportedPtx("guard", self.line, "a guard is a predicate register")
            guard = Register(register.name, register.type, negated)
        opcode = self.next()
        operands: list[Operand] = []
        if opcode.partition(".")[0] == "bra":
            operands.append(Symbol(self._scoped_label(self.next())))
        while not self.accept(";"):
            operands.append(self._operand())
            while self.accept("|"):
                operands[-1] = Group("|", (operands[-1], self._operand()))
            if not self.accept(",") and self.peek() != ";":
                raise UnsupportedPtx(opcode, self.line, f"{self.peek()!r} after an operand")
        return Instruction(opcode, tuple(operands), guard, self.line)

    def _operand(self) -> Operand:
        word = self.next()
        if word in {"{", "("}:
            return Group(word, self._rest_of_list("}" if word == "{" else ")"))
        if word == "[":
            return self._address()
        if word == "!":
            return self._negated()
        if word in {"-", "+"}:
            return Immediate(("-" if word == "-" else "") + self.next())
        if word[0].isdigit():
            return Immediate(word)
        return self._name(word)

    def _address(self) -> Operand:
        base = self._operand()
        if self.accept(","):
            return Group("[", (base, *self._rest_of_list("]")))
        offset = 0
        while self.peek() in {"+", "-"}:
            sign = -1 if self.next() == "-" else 1
            sign = -sign if self.accept("-") else sign
            offset += sign * int(self.next().rstrip("U"), 0)
        self.expect("]")
        if isinstance(base, Address | Group):
            raise UnsupportedPtx("address", self.line, "nested brackets")
        return Address(base, offset)

    def _negated(self) -> Register:
        register = self._operand()
        if not isinstance(register, Register):
            raise UnsupportedPtx("!", self.line, "only predicates are negated")
        return Register(register.name, register.type, negated=True)

    def _rest_of_list(self, close: str) -> tuple[Operand, ...]:
        items = []
        while not self.accept(close):
            items.append(self._operand())
            self.accept(",")
        return tuple(items)

    def _name(self, word: str) -> Operand:
        for scope in reversed(self.scopes):
            if word in scope:
                unique, kind = scope[word]
                return Symbol(unique) if kind.startswith(".") else Register(unique, kind)
        return Symbol(word)


def _type_bytes(kind: str) -> int:
    if kind == "pred":
        return 1
    if kind.endswith("x2"):
        return 4
    return SIZES[re.sub(r"\D", "", kind)] if kind else 1

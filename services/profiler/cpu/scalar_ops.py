"""Instructions that only touch registers."""

from collections.abc import Callable

from services.profiler.cpu import opcodes
from services.profiler.cpu.emitter import C_BYTES, TAGS, Emitter
from services.profiler.cpu.ptx import Group, Operand, Register

Emit = Callable[[Emitter, list[str]], str]


def arithmetic(e: Emitter, parts: list[str]) -> str:
    """Emits an opcode of `opcodes.ARITHMETIC`."""
    name, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if "cc" in modifiers or name in {"addc", "subc", "madc"}:
        return _carry(e, name, modifiers, kind)
    row = opcodes.ARITHMETIC.get(name)
    if row is None or kind not in row.types or not row.modifiers.issuperset(modifiers):
        raise e.unsupported()
    flags = sum(opcodes.FLAGS[m] for m in modifiers)
    wide = opcodes.WIDENED.get(kind, "") if "wide" in modifiers else kind
    kinds = {**opcodes.LETTERS, "T": kind, "W": wide}
    target, _, sources = row.signature.partition("=")
    operands = e.instruction.operands
    if len(operands) != len(sources) + 1 or not wide:
        raise e.unsupported("number of operands")
    values = [e.read(operand, kinds[letter]) for operand, letter in zip(operands[1:], sources, strict=True)]
    third = f", {TAGS[wide][1]}" if name == "mad" else ""
    call = f"op_{name}<{TAGS[kind][0]}, {flags}{third}>({', '.join(values)})"
    return e.write(operands[0], call, kinds[target])


def _carry(e: Emitter, name: str, modifiers: list[str], kind: str) -> str:
    base = {"add": "addc", "sub": "subc", "mad": "madc"}.get(name, name)
    allowed = {"cc", "lo", "hi"} if base == "madc" else {"cc"}
    if base not in {"addc", "subc", "madc"} or not allowed.issuperset(modifiers):
        raise e.unsupported()
    if kind not in {"s32", "u32", "b32", "s64", "u64", "b64"}:
        raise e.unsupported()
    flags = opcodes.CARRY_OUT if "cc" in modifiers else 0
    flags |= opcodes.CARRY_IN if name.endswith("c") else 0
    flags |= sum(opcodes.FLAGS[m] for m in modifiers if m != "cc")
    target, *sources = e.instruction.operands
    values = ", ".join(e.read(operand, kind) for operand in sources)
    return e.write(target, f"op_{base}<{TAGS[kind][0]}, {flags}>({values}, carry)", kind)


def mov(e: Emitter, parts: list[str]) -> str:
    """Mov, and its packing and unpacking forms."""
    if len(parts) != 2:
        raise e.unsupported()
    kind = parts[1]
    target, source = e.instruction.operands
    if kind not in TAGS or (kind == "pred") != (isinstance(target, Register) and target.type == "pred"):
        raise e.unsupported()
    if isinstance(target, Group):
        pieces, whole = target.items, f"u{8 * C_BYTES[TAGS[kind][1]]}"
        width = 8 * C_BYTES[whole] // len(pieces)
        lines = [_write_piece(e, piece, width, width * i) for i, piece in enumerate(pieces)]
        return f"{{ {whole} whole = {e.read(source, f'b{8 * C_BYTES[whole]}')}; {' '.join(lines)} }}"
    if isinstance(source, Group):
        whole = f"u{8 * C_BYTES[TAGS[kind][1]]}"
        width = 8 * C_BYTES[whole] // len(source.items)
        terms = [f"({whole}){e.read(piece, f'b{width}')} << {width * i}" for i, piece in enumerate(source.items)]
        joined = f"({whole})({' | '.join(terms)})"
        return e.write(target, joined if whole == TAGS[kind][1] else f"bits<{TAGS[kind][1]}>({joined})", kind)
    if isinstance(target, Register) and C_BYTES[TAGS[target.type][1]] != C_BYTES[TAGS[kind][1]]:
        raise e.unsupported("register of another width")
    if isinstance(target, Register):
        kind = target.type  # a move copies bits: no detour over the instruction's own type
    return e.write(target, e.read(source, kind), kind)


def _write_piece(e: Emitter, piece: Operand, width: int, shift: int) -> str:
    raw = f"(u{width})(whole >> {shift})"
    if isinstance(piece, Register) and TAGS[piece.type][1] in {"float", "double"}:
        return e.write(piece, f"bits<{TAGS[piece.type][1]}>({raw})", piece.type)
    return e.write(piece, raw, f"b{width}")


def cvt(e: Emitter, parts: list[str]) -> str:
    """Conversions between all scalar types, and two floats to a pair of halves."""
    operands = e.instruction.operands
    modifiers, target, source = parts[1:-2], parts[-2], parts[-1]
    if not {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu"}.issuperset(modifiers):
        raise e.unsupported()
    flags = sum(opcodes.FLAGS[m] for m in modifiers)
    if target in {"f16x2", "bf16x2"} and source == "f32" and len(operands) == 3:
        values = f"{e.read(operands[1], 'f32')}, {e.read(operands[2], 'f32')}"
        return e.write(operands[0], f"op_cvt_pair<{target}, {flags}>({values})", target)
    if len(operands) != 2 or not opcodes.CONVERTIBLE.issuperset((target, source)):
        raise e.unsupported()
    rounded = bool(flags & 3) and not flags & opcodes.FLAGS["rni"]
    if target == "bf16" and source != "f32" and (rounded or source.endswith("64") or "relu" in modifiers):
        raise e.unsupported()
    call = f"op_cvt<{TAGS[target][0]}, {TAGS[source][0]}, {flags}>({e.read(operands[1], source, wider=True)})"
    return e.write(operands[0], call, target, wider=True)


def _compare(e: Emitter, comparison: str, kind: str, flags: int, operands: tuple[Operand, Operand]) -> str:
    if comparison not in opcodes.COMPARISONS or kind not in TAGS or TAGS[kind][1] == "bool":
        raise e.unsupported()
    arguments = ", ".join(e.read(operand, kind) for operand in operands)
    return f"op_compare<{TAGS[kind][0]}, {opcodes.COMPARISONS[comparison]}, {flags}>({arguments})"


_COMBINE = {"and": "{} & d", "or": "{} | d", "xor": "{} != d"}


def setp(e: Emitter, parts: list[str]) -> str:
    """Compares into one or two predicates, combined with a third."""
    kind, modifiers = parts[-1], parts[2:-1]
    target, a, b, *third = e.instruction.operands
    combine = next((m for m in modifiers if m in _COMBINE), None)
    if not {"ftz", *_COMBINE}.issuperset(modifiers) or (combine is None) != (not third) or kind.endswith("x2"):
        raise e.unsupported()
    test = _compare(e, parts[1], kind, opcodes.FLAGS["ftz"] if "ftz" in modifiers else 0, (a, b))
    pattern = _COMBINE[combine] if combine else "{}"
    targets = target.items if isinstance(target, Group) else (target,)
    writes = [e.write(p, pattern.format(v), "pred") for p, v in zip(targets, ("c", "!c"), strict=False)]
    other = f"bool d = {e.read(third[0], 'pred')}; " if third else ""
    return f"{{ bool c = {test}; {other}{' '.join(writes)} }}"


def set_(e: Emitter, parts: list[str]) -> str:
    """Compares into all ones or 1.0, also for pairs of halves."""
    comparison, source, target, modifiers = parts[1], parts[-1], parts[-2], parts[2:-2]
    operands = e.instruction.operands
    if modifiers not in ([], ["ftz"]) or len(operands) != 3 or comparison not in opcodes.COMPARISONS:
        raise e.unsupported()
    if target not in TAGS or source not in TAGS or "pred" in {source, target}:
        raise e.unsupported()
    values = f"{e.read(operands[1], source)}, {e.read(operands[2], source)}"
    flags = opcodes.FLAGS["ftz"] if modifiers else 0
    call = f"op_set<{TAGS[target][0]}, {TAGS[source][0]}, {opcodes.COMPARISONS[comparison]}, {flags}>({values})"
    return e.write(operands[0], call, target)


def selp(e: Emitter, parts: list[str]) -> str:
    """Selects by predicate."""
    target, a, b, p = e.instruction.operands
    kind = _only_type(e, parts)
    return e.write(target, f"({e.read(p, 'pred')} ? {e.read(a, kind)} : {e.read(b, kind)})", kind)


def slct(e: Emitter, parts: list[str]) -> str:
    """Selects by sign."""
    modifiers, kind, sign = parts[1:-2], parts[-2], parts[-1]
    target, a, b, c = e.instruction.operands
    if modifiers not in ([], ["ftz"]) or sign not in {"s32", "f32"} or kind not in TAGS:
        raise e.unsupported()
    value = e.read(c, sign)
    first = f"flush<{4 if modifiers else 0}>({value}) >= 0" if sign == "f32" else f"(i32){value} >= 0"
    return e.write(target, f"({first} ? {e.read(a, kind)} : {e.read(b, kind)})", kind)


def _only_type(e: Emitter, parts: list[str]) -> str:
    if len(parts) != 2 or parts[1] not in TAGS:
        raise e.unsupported()
    return parts[1]


def prmt(e: Emitter, parts: list[str]) -> str:
    """Permutes bytes."""
    mode = parts[2] if len(parts) == 3 else ""
    if parts[1] != "b32" or mode not in opcodes.PRMT_MODES or len(parts) > 3:
        raise e.unsupported()
    target, *sources = e.instruction.operands
    values = ", ".join(e.read(s, "u32") for s in sources)
    return e.write(target, f"op_prmt<b32, {opcodes.PRMT_MODES[mode]}>({values})", "u32")


def testp(e: Emitter, parts: list[str]) -> str:
    """Tests a float for a property."""
    if len(parts) != 3 or parts[1] not in opcodes.TESTS or parts[2] not in {"f32", "f64"}:
        raise e.unsupported()
    target, a = e.instruction.operands
    return e.write(target, f"op_testp<{parts[2]}, {opcodes.TESTS[parts[1]]}>({e.read(a, parts[2])})", "pred")


def dot_product(e: Emitter, parts: list[str]) -> str:
    """dp4a and dp2a."""
    name, modifiers, a, b = parts[0], parts[1:-2], parts[-2], parts[-1]
    if not {a, b} <= {"s32", "u32"} or modifiers not in ([[]] if name == "dp4a" else [["lo"], ["hi"]]):
        raise e.unsupported()
    target, *sources = e.instruction.operands
    values = ", ".join(e.read(s, "u32") for s in sources)
    flags = sum(opcodes.FLAGS[m] for m in modifiers)
    return e.write(target, f"op_{name}<{TAGS[a][0]}, {TAGS[b][0]}, {flags}>({values})", "u32")


SCALAR: dict[str, Emit] = {
    "mov": mov,
    "cvt": cvt,
    "setp": setp,
    "set": set_,
    "selp": selp,
    "slct": slct,
    "prmt": prmt,
    "testp": testp,
    "dp4a": dot_product,
    "dp2a": dot_product,
}
SCALAR |= dict.fromkeys([*opcodes.ARITHMETIC, "addc", "subc", "madc"], arithmetic)

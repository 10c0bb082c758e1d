"""Instructions that touch memory: loads, stores, atomics, address conversions, asynchronous copies, fences."""

import re

from services.profiler.cpu.emitter import C_BYTES, TAGS, TYPE_BYTES, Emitter
from services.profiler.cpu.ptx import Address, Immediate, Operand, Register, Symbol
from services.profiler.cpu.scalar_ops import Emit

_SPACES = {"global": "GLOBAL", "shared": "SHARED", "shared::cta": "SHARED", "local": "LOCAL", "const": "CONSTANT"}
_SPACES |= {"param": "PARAM", "param::entry": "PARAM", "param::func": "PARAM"}
_ORDERS = {"weak": "WEAK", "volatile": "STRONG", "relaxed": "STRONG", "acquire": "ACQUIRE", "release": "RELEASE"} | {
    "acq_rel": "ACQ_REL"
}
_SCOPES = {"cta", "gpu", "sys", "cluster"}
_HINT = re.compile(r"ca|cg|cs|lu|cv|wb|wt|nc|L1::(?:evict_\w+|no_allocate)|L2::(?:evict_\w+|64B|128B|256B)")
_ATOMS = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}
_COPY_BYTES = (4, 8, 16)


def _split(e: Emitter, modifiers: list[str]) -> tuple[str, str, int, list[str]]:
    """Space, order, vector length and what is left of a memory instruction's modifiers."""
    space, order, vector, rest = "GENERIC", "WEAK", 1, []
    for modifier in modifiers:
        if modifier in _SPACES:
            space = _SPACES[modifier]
        elif modifier in _ORDERS:
            order = _ORDERS[modifier]
        elif modifier in {"v2", "v4"}:
            vector = int(modifier[1])
        elif modifier not in _SCOPES and not _HINT.fullmatch(modifier):
            rest.append(modifier)
    if order != "WEAK":
        e.needs_fibres = True
    return space, order, vector, rest


def load(e: Emitter, parts: list[str]) -> str:
    """Ld and ldu, scalar and vector, from every space."""
    space, order, vector, rest = _split(e, parts[1:-1])
    kind = parts[-1]
    target, source = e.instruction.operands
    targets = e.items(target)
    if rest or kind not in TAGS or kind == "pred" or len(targets) != vector:
        raise e.unsupported()
    c = TAGS[kind][1]
    value = _fetch(e, space, order, f"Vec<{c}, {vector}>", source)
    writes = " ".join(e.write(register, f"v.e[{i}]", kind, wider=True) for i, register in enumerate(targets))
    wait = "rt_spin(t); " if order != "WEAK" else ""
    return f"{{ {wait}auto v = {value}; {writes} }}"


def _vector_bytes(vector: str) -> int:
    c, count = vector[4:-1].split(", ")
    return C_BYTES[c] * int(count)


def _fetch(e: Emitter, space: str, order: str, vector: str, source: Operand) -> str:
    size = _vector_bytes(vector)
    if space == "PARAM":
        return _parameter_load(e, vector, size, source)
    address = e.address(source)
    if space == "LOCAL":
        return f"local_load<{vector}>(t, {address}, {e.instruction.line})"
    if order == "WEAK" and e.place(source) in e.swapped:
        order = "STRONG"  # the first read of a compare-and-swap loop, which finds out if it was stale
    site = e.site(size, space, "LOAD", order)
    return f"{'shared' if space == 'SHARED' else 'global'}_load<H, {vector}>(t, {site}, {address})"


def _parameter(e: Emitter, operand: Operand, size: int) -> str | None:
    """C++ address inside of a named parameter, bounds known; None for an address in a register."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    base, extent = e.parameters.get(operand.base.name, ("", 0))
    if not base or operand.offset < 0 or operand.offset + size > extent:
        raise e.unsupported("parameter is unknown or accessed past its end")
    return f"({base} + {operand.offset})"


def _parameter_load(e: Emitter, vector: str, size: int, source: Operand) -> str:
    base = _parameter(e, source, size)
    if base is not None:
        return f"parameter_load<{vector}>({base})"
    if not e.function.is_entry:
        raise e.unsupported("computed address of a device function's parameter")
    return f"global_load<H, {vector}>(t, {e.site(size, 'CONSTANT', 'LOAD')}, {e.address(source)})"


def store(e: Emitter, parts: list[str]) -> str:
    """St, scalar and vector, to every space."""
    space, order, vector, rest = _split(e, parts[1:-1])
    kind = parts[-1]
    target, source = e.instruction.operands
    sources = e.items(source)
    if rest or kind not in TAGS or kind == "pred" or len(sources) != vector or space == "CONSTANT":
        raise e.unsupported()
    c = TAGS[kind][1]
    size = C_BYTES[c] * vector
    values = f"Vec<{c}, {vector}>{{{{{', '.join(e.read(s, kind, wider=True) for s in sources)}}}}}"
    if space == "PARAM":
        base = _parameter(e, target, size)
        if base is None:
            raise e.unsupported("computed address of a parameter")
        return f"parameter_store({base}, {values});"
    address = e.address(target)
    if space == "LOCAL":
        return f"local_store(t, {address}, {values}, {e.instruction.line});"
    site = e.site(size, space, "STORE", order)
    return f"{'shared' if space == 'SHARED' else 'global'}_store<H>(t, {site}, {address}, {values});"


def atomic(e: Emitter, parts: list[str]) -> str:
    """Atom and red."""
    name, kind = parts[0], parts[-1]
    space, order, vector, rest = _split(e, [p for p in parts[1:-1] if p != "noftz"])
    operands = list(e.instruction.operands)
    target = operands.pop(0) if name == "atom" else Symbol("_")
    operation = rest[0] if len(rest) == 1 else ""
    expected = 3 if operation == "cas" else 2
    if vector != 1 or operation not in _ATOMS or len(operands) != expected or kind not in TAGS:
        raise e.unsupported()
    if space not in {"GENERIC", "GLOBAL", "SHARED"}:
        raise e.unsupported()
    _check_atomic_type(e, operation, kind)
    e.needs_fibres |= name == "atom"
    site = e.site(TYPE_BYTES[kind], space, "ATOMIC", "STRONG" if order == "WEAK" else order)
    values = ", ".join(e.read(o, kind) for o in operands[1:])
    where = "true" if space == "SHARED" else "false"
    call = (
        f"atomic<H, {TAGS[kind][0]}, ATOM_{operation.upper()}, {where}>(t, {site}, {e.address(operands[0])}, {values})"
    )
    return e.write(target, call, kind)


def _check_atomic_type(e: Emitter, operation: str, kind: str) -> None:
    real = kind[0] == "f" or kind.startswith("bf")
    allowed = {
        "add": not kind.startswith("b") or real,
        "min": kind in {"s32", "u32", "s64", "u64"},
        "max": kind in {"s32", "u32", "s64", "u64"},
        "inc": kind == "u32",
        "dec": kind == "u32",
    }
    if not allowed.get(operation, not real) or TYPE_BYTES[kind] == 1:
        raise e.unsupported()


def convert_address(e: Emitter, parts: list[str]) -> str:
    """Cvta: shared addresses are offsets into the block's window, all others are the generic address itself."""
    to, rest = ("to" in parts), [p for p in parts[1:-1] if p != "to"]
    target, source = e.instruction.operands
    if parts[-1] != "u64" or len(rest) != 1 or rest[0] not in _SPACES:
        raise e.unsupported()
    value = e.read(source, "u64")
    if rest[0].startswith("shared"):
        value = f"({value} {'-' if to else '+'} (u64)t->shared)"
    return e.write(target, value, "u64")


def is_space(e: Emitter, parts: list[str]) -> str:
    """Isspacep for shared and local; global is what is neither."""
    target, source = e.instruction.operands
    value = e.read(source, "u64")
    shared = f"({value} - (u64)t->shared < SHARED_START + SHARED_BYTES_MAX)"
    local = f"({value} - (u64)t->local_low < (u64)(t->local_end - t->local_low))"
    tests = {"shared": shared, "shared::cta": shared, "local": local, "global": f"(!{shared} && !{local})"}
    if len(parts) != 2 or parts[1] not in tests:
        raise e.unsupported()
    return e.write(target, tests[parts[1]], "pred")


def copy_async(e: Emitter, parts: list[str]) -> str:
    """cp.async with its groups; the bulk (TMA) forms are refused."""
    if parts[1:] == ["async", "commit_group"]:
        return "rt_async_commit(t);"
    if parts[1:] == ["async", "wait_all"]:
        return "rt_async_wait(t, ~0u);"
    if parts[1:] == ["async", "wait_group"] and isinstance(e.instruction.operands[0], Immediate):
        return f"rt_async_wait(t, {e.read(e.instruction.operands[0], 'u32')});"
    known = parts[1] == "async" and parts[2] in {"ca", "cg"}
    rest = [p for p in parts[3:] if p not in {"shared", "shared::cta", "global"} and not _HINT.fullmatch(p)]
    operands = e.instruction.operands
    if not known or rest or len(operands) not in {3, 4} or not isinstance(operands[2], Immediate):
        raise e.unsupported()
    size = int(operands[2].text, 0)
    if size not in _COPY_BYTES or (len(operands) == 4 and _is_predicate(operands[3])):
        raise e.unsupported()
    filled = e.read(operands[3], "u32") if len(operands) == 4 else str(size)
    source, part = e.site(size, "GLOBAL", "LOAD"), e.site(1, "GLOBAL", "LOAD")
    target = e.site(size, "SHARED", "STORE")
    addresses = f"{e.address(operands[0])}, {e.address(operands[1])}"
    return f"rt_async_copy(t, {source}, {part}, {target}, {addresses}, {filled}, H);"


def _is_predicate(operand: Operand) -> bool:
    return isinstance(operand, Register) and operand.type == "pred"


def fence(e: Emitter, parts: list[str]) -> str:
    """Membar and fence; those of other proxies are refused."""
    if not {"gl", "cta", "sys", "gpu", "cluster", "sc", "acq_rel"}.issuperset(parts[1:]):
        raise e.unsupported()
    return "rt_fence(t);"


def prefetch(e: Emitter, parts: list[str]) -> str:
    """Prefetches change no value."""
    if not {"global", "L1", "L2", "L2::evict_last", "L2::evict_normal", "local"}.issuperset(parts[1:]):
        raise e.unsupported()
    return ";"


MEMORY: dict[str, Emit] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "cvta": convert_address,
    "isspacep": is_space,
    "cp": copy_async,
    "membar": fence,
    "fence": fence,
    "prefetch": prefetch,
    "prefetchu": prefetch,
}

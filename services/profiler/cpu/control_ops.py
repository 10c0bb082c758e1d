"""Branches, calls, barriers and warp collectives."""

from services.profiler.cpu.emitter import TAGS, Emitter
from services.profiler.cpu.ptx import Group, Operand, Symbol
from services.profiler.cpu.scalar_ops import Emit

# Numbers for `rt_exchange`: lanes that wait for each other must execute the same collective.
_SYNC, _SHUFFLE, _VOTE, _MATCH, _REDUCE, _ELECT = range(6)


def branch(e: Emitter, parts: list[str]) -> str:
    """Bra; one that goes back pays for the check of the time limit."""
    target = e.instruction.operands[0]
    if not isinstance(target, Symbol) or not {"uni"}.issuperset(parts[1:]):
        raise e.unsupported()
    return _goto(e, target.name)


def _goto(e: Emitter, name: str) -> str:
    label = name if name in e.labels else name.partition("@")[0]
    if label not in e.labels:
        raise e.unsupported(f"label {name}")
    back = "back_edge(t); " if label in e.passed else ""
    return f"{{ {back}goto L{e.labels[label]}; }}"


def branch_indexed(e: Emitter, parts: list[str]) -> str:
    """brx.idx over a .branchtargets list."""
    index, targets = e.instruction.operands
    names = e.function.branch_targets.get(targets.name, ()) if isinstance(targets, Symbol) else ()
    if not names or parts[1] != "idx" or not {"uni"}.issuperset(parts[2:]):
        raise e.unsupported()
    cases = " ".join(f"case {i}: {_goto(e, name)}" for i, name in enumerate(names))
    line = e.instruction.line
    return f'switch ({e.read(index, "u32")}) {{ {cases} default: rt_trap(t, {line}, "branch index out of range"); }}'


def leave(e: Emitter, parts: list[str]) -> str:
    """Ret and exit."""
    if not {"uni"}.issuperset(parts[1:]):
        raise e.unsupported()
    if parts[0] == "exit" and not e.function.is_entry:
        e.needs_fibres = True
        return "rt_exit(t);"
    return "{ t->local_top = local_saved; return; }"


def call(e: Emitter, parts: list[str]) -> str:
    """Direct calls; parameters are passed as byte arrays, by value as PTX declares them."""
    operands = list(e.instruction.operands)
    if not {"uni"}.issuperset(parts[1:]):
        raise e.unsupported()
    returns: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    if isinstance(operands[0], Group):
        returns, operands = operands[0].items, operands[1:]
    name, *operands = operands
    if operands and isinstance(operands[0], Group):
        arguments, operands = operands[0].items, operands[1:]
    if operands or not isinstance(name, Symbol):
        raise e.unsupported("indirect call")
    places = [_argument(e, a) for a in (*returns, *arguments)]
    if name.name == "vprintf":
        return f"memset({places[0]}, 0, 4);"
    if name.name == "__assertfail":
        return f'rt_trap(t, {e.instruction.line}, "assertion failed");'
    callee = e.tables.functions.get(name.name)
    if callee is None or callee.body is None or callee.is_entry:
        raise e.unsupported(f"function {name.name} is not in the module")
    sizes = [v.bytes for v in (*callee.returns, *callee.parameters)]
    if sizes != [e.parameters[a.name][1] for a in (*returns, *arguments) if isinstance(a, Symbol)]:
        raise e.unsupported("arguments do not match the function's parameters")
    e.calls.add(name.name)
    return f"back_edge(t); {e.tables.indices[name.name]}<H>({', '.join(['t', *places])});"


def _argument(e: Emitter, operand: Operand) -> str:
    if not isinstance(operand, Symbol) or operand.name not in e.parameters:
        raise e.unsupported("argument is no .param variable")
    return e.parameters[operand.name][0]


def barrier(e: Emitter, parts: list[str]) -> str:
    """Bar and barrier: sync, red and arrive."""
    modifiers = [p for p in parts[1:] if p not in {"cta", "aligned"}]
    operands = list(e.instruction.operands)
    e.needs_fibres = True
    e.barriers += 1
    site = f"{e.tables.indices[e.function.name].rpartition('_')[2]}u * 65536 + {e.barriers}, {e.instruction.line}"
    if parts[0] == "bar" and modifiers[:1] == ["warp"]:
        if modifiers != ["warp", "sync"]:
            raise e.unsupported()
        return f"rt_exchange(t, {e.instruction.line}, {_SYNC}, {e.read(operands[0], 'u32')}, 0, nullptr);"
    if modifiers in (["sync"], ["arrive"]) and len(operands) in {1, 2}:
        count = e.read(operands[1], "u32") if len(operands) > 1 else "0"
        number = e.read(operands[0], "u32")
        if modifiers == ["arrive"]:
            return f"rt_barrier_arrive(t, {site}, {number}, {count});"
        return f"rt_barrier(t, {site}, {number}, {count}, 0, 0);"
    reductions = {("popc", "u32"): 1, ("and", "pred"): 2, ("or", "pred"): 3}
    if modifiers[:1] != ["red"] or tuple(modifiers[1:]) not in reductions or len(operands) not in {3, 4}:
        raise e.unsupported()
    kind = modifiers[2]
    count = e.read(operands[2], "u32") if len(operands) == 4 else "0"
    reduction = reductions[modifiers[1], kind]
    value = f"rt_barrier(t, {site}, {e.read(operands[1], 'u32')}, {count}, {reduction}, {e.read(operands[-1], 'pred')})"
    return e.write(operands[0], value if kind == "u32" else f"({value} != 0)", kind)


def _exchange(e: Emitter, kind: int, mask: Operand, value: str) -> str:
    e.needs_fibres = True
    line = e.instruction.line
    return f"u64 all[32]; u32 lanes = rt_exchange(t, {line}, {kind}, {e.read(mask, 'u32')}, {value}, all); (void)lanes;"


def shuffle(e: Emitter, parts: list[str]) -> str:
    """shfl.sync in its four modes."""
    target, a, b, c, mask = e.instruction.operands
    if parts[1] != "sync" or parts[2] not in {"up", "down", "bfly", "idx"} or parts[3:] != ["b32"]:
        raise e.unsupported()
    targets = target.items if isinstance(target, Group) else (target,)
    exchange = _exchange(e, _SHUFFLE, mask, e.read(a, "u32"))
    pick = f"bool found; u32 lane = shuffle_{parts[2]}(t->lane, {e.read(b, 'u32')}, {e.read(c, 'u32')}, &found);"
    writes = [e.write(targets[0], "(u32)all[lane]", "u32")]
    if len(targets) > 1:
        writes.append(e.write(targets[1], "found", "pred"))
    # b and c are read before the targets are written: they may be the same registers.
    return f"{{ {pick} {exchange} {' '.join(writes)} }}"


def vote(e: Emitter, parts: list[str]) -> str:
    """vote.sync."""
    target, predicate, mask = e.instruction.operands
    if parts[1] != "sync":
        raise e.unsupported()
    mode, kind = parts[2], parts[3]
    votes = {
        ("ballot", "b32"): "yes",
        ("any", "pred"): "(yes != 0)",
        ("all", "pred"): "(yes == lanes)",
        ("uni", "pred"): "(yes == lanes || yes == 0)",
    }
    if (mode, kind) not in votes:
        raise e.unsupported()
    exchange = _exchange(e, _VOTE, mask, f"(u64){e.read(predicate, 'pred')}")
    return f"{{ {exchange} u32 yes = ballot(lanes, all); {e.write(target, votes[mode, kind], kind)} }}"


def match(e: Emitter, parts: list[str]) -> str:
    """match.any.sync and match.all.sync."""
    target, value, mask = e.instruction.operands
    if parts[1] not in {"any", "all"} or parts[2] != "sync" or parts[3:] not in (["b32"], ["b64"]):
        raise e.unsupported()
    targets = target.items if isinstance(target, Group) else (target,)
    exchange = _exchange(e, _MATCH, mask, f"(u64){e.read(value, parts[3])}")
    same = "u32 same = matching(lanes, all, t->lane);"
    if parts[1] == "any":
        writes = [e.write(targets[0], "same", "b32")]
    else:
        writes = [e.write(targets[0], "(same == lanes ? lanes : 0u)", "b32")]
        writes += [e.write(targets[1], "(same == lanes)", "pred")] if len(targets) > 1 else []
    return f"{{ {exchange} {same} {' '.join(writes)} }}"


def reduce(e: Emitter, parts: list[str]) -> str:
    """redux.sync over 32-bit integers."""
    target, value, mask = e.instruction.operands
    if parts[1] != "sync" or parts[2] not in {"add", "min", "max", "and", "or", "xor"}:
        raise e.unsupported()
    if parts[3:] not in (["s32"], ["u32"], ["b32"]):
        raise e.unsupported()
    exchange = _exchange(e, _REDUCE, mask, e.read(value, "u32"))
    result = f"reduce_lanes<{TAGS[parts[3]][0]}, ATOM_{parts[2].upper()}>(lanes, all)"
    return f"{{ {exchange} {e.write(target, result, 'u32')} }}"


def elect(e: Emitter, parts: list[str]) -> str:
    """elect.sync: the lowest lane is elected."""
    target, mask = e.instruction.operands
    if parts[1:] != ["sync"] or not isinstance(target, Group):
        raise e.unsupported()
    leader = "u32 leader = (u32)__builtin_ctz(lanes);"
    writes = [e.write(target.items[0], "leader", "u32"), e.write(target.items[1], "(t->lane == leader)", "pred")]
    return f"{{ {_exchange(e, _ELECT, mask, '0')} {leader} {' '.join(writes)} }}"


def active_mask(e: Emitter, parts: list[str]) -> str:
    """Activemask: the lanes that reach it together."""
    e.needs_fibres = True
    e.barriers += 1
    site = f"{e.tables.indices[e.function.name].rpartition('_')[2]}u * 65536 + {e.barriers}"
    if parts[1:] != ["b32"]:
        raise e.unsupported()
    return e.write(e.instruction.operands[0], f"rt_active_mask(t, {site})", "b32")


def trap(e: Emitter, parts: list[str]) -> str:
    """Trap and brkpt end the launch."""
    return f'rt_trap(t, {e.instruction.line}, "{parts[0]}");'


def sleep(e: Emitter, parts: list[str]) -> str:
    """Nanosleep: lets the others run."""
    if parts[1:] != ["u32"]:
        raise e.unsupported()
    e.needs_fibres = True
    return "rt_spin(t);"


CONTROL: dict[str, Emit] = {
    "bra": branch,
    "brx": branch_indexed,
    "ret": leave,
    "exit": leave,
    "call": call,
    "bar": barrier,
    "barrier": barrier,
    "shfl": shuffle,
    "vote": vote,
    "match": match,
    "redux": reduce,
    "elect": elect,
    "activemask": active_mask,
    "trap": trap,
    "brkpt": trap,
    "nanosleep": sleep,
}

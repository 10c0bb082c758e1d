"""Translates PTX to C++: one function a kernel, in a plain and in a checked variant.

The text includes `runtime/collectives.h` and exports `optiml_module` (runtime/device.h) and `optiml_metadata`, JSON
that `services.profiler.cpu.execute` reads: entries, parameter layout, shared memory, instruction mix of basic blocks.
"""

import json
from dataclasses import dataclass

from services.profiler.cpu.control_ops import CONTROL
from services.profiler.cpu.emitter import TAGS, Emitter, Tables
from services.profiler.cpu.memory_ops import MEMORY
from services.profiler.cpu.merging import FOLLOWER, merged_loads
from services.profiler.cpu.mix import block_mix
from services.profiler.cpu.parser import parse
from services.profiler.cpu.ptx import Function, Instruction, Label, UnsupportedPtx, Variable
from services.profiler.cpu.scalar_ops import SCALAR
from services.profiler.cpu.variables import memory_image, place

__all__ = ["UnsupportedPtx", "translate"]

_OPERATIONS = SCALAR | MEMORY | CONTROL
_ENDS_BLOCK = {"bra", "brx", "ret", "exit"}
SHARED_START = 1024
# A thread's local memory on the device (CUDA programming guide, compute capabilities).
LOCAL_BYTES_MAX = 512 * 1024
# Frames of local memory that recursive functions get; deeper recursion is a fault.
_RECURSION_FRAMES = 64


@dataclass(slots=True)
class _Translated:
    """One function in C++ and what follows from its body."""

    function: Function
    text: str
    calls: set[str]
    needs_fibres: bool


def translate(ptx: str) -> str:
    """Translates a PTX module to one C++ translation unit.

    Args:
        ptx: Text as `nvcc -ptx -lineinfo` writes it.

    Returns:
        C++ text for `services.profiler.cpu.build`.

    Raises:
        UnsupportedPtx: An opcode, modifier or feature that is not known to be executed correctly.
    """
    module = parse(ptx)
    functions = {name: f for name, f in module.functions.items() if f.body is not None}
    offsets, image_bytes = place(module.variables)
    tables = Tables(module.variables, module.functions, offsets)
    tables.shared, static_end = _shared_layout(module.variables, functions)
    tables.indices = {name: f"function_{i}" for i, name in enumerate(functions)}
    translated = {name: _function(f, tables) for name, f in functions.items()}
    entries = [t for t in translated.values() if t.function.is_entry]
    pieces = ['#include "collectives.h"\n', "static u64 module_memory;\n"]
    pieces.append(f"static Site sites[] = {{{', '.join(tables.sites) or '{}'}}};\n")
    pieces += [f"{_signature(t.function, tables)};\n" for t in translated.values()]
    pieces += [t.text for t in translated.values()]
    pieces.append(_exports(entries, translated, tables))
    metadata = {
        "entries": [_entry_metadata(t, module.variables, static_end) for t in entries],
        "variables": memory_image(module.variables, offsets, image_bytes),
        "blocks": [block_mix(b) for b in tables.blocks],
    }
    pieces.append(f'extern "C" const char optiml_metadata[] = {json.dumps(json.dumps(metadata))};\n')
    return "".join(pieces)


def _shared_layout(
    variables: dict[str, Variable], functions: dict[str, Function]
) -> tuple[dict[str, int], dict[str, int]]:
    """Shared address of each static variable, and where each entry's static part ends.

    What is declared at module scope or in device functions lies at the same place for all entries, before what an
    entry declares for itself.
    """
    addresses: dict[str, int] = {}
    top = SHARED_START
    common = [v for v in variables.values() if v.space == "shared"]
    common += [v for f in functions.values() if not f.is_entry for v in f.variables.values() if v.space == "shared"]
    for variable in common:
        top = _put(addresses, variable, top)
    ends = {}
    for function in functions.values():
        if function.is_entry:
            end = top
            for variable in function.variables.values():
                if variable.space == "shared":
                    end = _put(addresses, variable, end)
            ends[function.name] = end
    return addresses, ends


def _put(addresses: dict[str, int], variable: Variable, top: int) -> int:
    if variable.bytes == 0:
        return top
    address = -(-top // variable.align) * variable.align
    addresses[variable.name] = address
    return address + variable.bytes


def _signature(function: Function, tables: Tables) -> str:
    places = ""
    if not function.is_entry:
        places += "".join(f", u8* return_{i}" for i in range(len(function.returns)))
        places += "".join(f", u8* parameter_{i}" for i in range(len(function.parameters)))
    inline = "" if function.is_entry else "__attribute__((noinline)) "
    return f"template <bool H> static {inline}void {tables.indices[function.name]}(Thread* t{places})"


def _parameter_places(function: Function) -> dict[str, tuple[str, int]]:
    """C++ address and size of each name that ld.param and st.param may use."""
    places = {}
    if function.is_entry:
        for variable, offset in _launch_layout(function.parameters):
            places[variable.name] = (f"t->launch->params + {offset}", variable.bytes)
    else:
        places |= {v.name: (f"return_{i}", v.bytes) for i, v in enumerate(function.returns)}
        places |= {v.name: (f"parameter_{i}", v.bytes) for i, v in enumerate(function.parameters)}
    called = [name for name, v in function.variables.items() if v.space == "param"]
    places |= {name: (f"argument_{i}", function.variables[name].bytes) for i, name in enumerate(called)}
    return places


def _launch_layout(parameters: list[Variable]) -> list[tuple[Variable, int]]:
    placed, top = [], 0
    for variable in parameters:
        top = -(-top // variable.align) * variable.align
        placed.append((variable, top))
        top += variable.bytes
    return placed


def _function(function: Function, tables: Tables) -> _Translated:
    e = Emitter(function, tables)
    e.parameters = _parameter_places(function)
    assert function.body is not None
    e.labels = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    e.merged = merged_loads(function.body)
    e.find_swaps()
    fresh = True  # the next instruction begins a basic block
    for item in function.body:
        if isinstance(item, Label):
            e.lines.append(f"L{e.labels[item.name]}:;")
            e.passed.add(item.name)
            fresh = True
            continue
        if fresh:
            e.lines.append(f"if (H) ++t->block_counts[{len(tables.blocks)}];")
            tables.blocks.append([])
        if e.merged.get(id(item)) != FOLLOWER:
            tables.blocks[-1].append(item.opcode)
        e.lines.append(_statement(e, item))
        fresh = item.opcode.partition(".")[0] in _ENDS_BLOCK
    head = f"{_signature(function, tables)} {{\n{_declarations(function)}"
    text = head + "\n".join(e.lines) + "\nt->local_top = local_saved;\n}\n"
    return _Translated(function, text, e.calls, e.needs_fibres)


def _statement(e: Emitter, instruction: Instruction) -> str:
    e.instruction = instruction
    parts = instruction.opcode.split(".")
    operation = _OPERATIONS.get(parts[0])
    if operation is None:
        raise e.unsupported()
    try:
        text = operation(e, parts)
    except (ValueError, IndexError, KeyError) as error:
        raise e.unsupported("form of the instruction") from error
    if instruction.guard is not None:
        return f"if ({e.read(instruction.guard, 'pred')}) {{ {text} }}"
    return text


def _declarations(function: Function) -> str:
    lines = ["stack_check(t);", "u8* local_saved = t->local_top;", "bool carry = false; (void)carry;"]
    by_type: dict[str, list[str]] = {}
    for name, kind in function.registers.items():
        if kind not in TAGS:
            raise UnsupportedPtx(f".reg .{kind}")
        by_type.setdefault(TAGS[kind][1], []).append(f"R_{name}")
    lines += [f"{c} {', '.join(names)};" for c, names in by_type.items()]
    arguments = 0
    for index, variable in enumerate(function.variables.values()):
        if variable.space == "local":
            lines.append(f"u8* depot_{index} = local_enter(t, {variable.bytes}, {variable.align});")
        elif variable.space == "param":
            lines.append(f"alignas(16) u8 argument_{arguments}[{variable.bytes}];")
            arguments += 1
    return "\n".join(lines) + "\n"


def _reached(translated: dict[str, _Translated], name: str) -> set[str]:
    """The function and all that it calls, directly or not."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += translated[current].calls
    return seen


def _exports(entries: list[_Translated], translated: dict[str, _Translated], tables: Tables) -> str:
    rows = [_entry_row(entry.function.name, translated, tables) for entry in entries]
    sizes = f"{len(entries)}, sites, {len(tables.sites)}, {len(tables.blocks)}, &module_memory"
    return (
        f"static const KernelEntry entries[] = {{{', '.join(rows) or '{}'}}};\n"
        f'extern "C" const Module optiml_module = {{entries, {sizes}}};\n'
    )


def _entry_row(name: str, translated: dict[str, _Translated], tables: Tables) -> str:
    """A `KernelEntry`: whether it needs fibres and how much local memory follows from all that it calls."""
    c = tables.indices[name]
    reached = _reached(translated, name)
    fibres = any(translated[f].needs_fibres for f in reached)
    depots = [v for f in reached for v in translated[f].function.variables.values() if v.space == "local"]
    local_bytes = sum(v.bytes + v.align for v in depots)
    if local_bytes > LOCAL_BYTES_MAX:
        raise UnsupportedPtx(f"{local_bytes} bytes of local memory", reason=f"at most {LOCAL_BYTES_MAX} a thread")
    if any(f in _reached(translated, callee) for f in reached for callee in translated[f].calls):
        local_bytes = min(LOCAL_BYTES_MAX, local_bytes * _RECURSION_FRAMES)
    return f'{{"{name}", {c}<false>, {c}<true>, {int(fibres)}, {local_bytes}}}'


def _entry_metadata(entry: _Translated, variables: dict[str, Variable], ends: dict[str, int]) -> dict[str, object]:
    function = entry.function
    dynamic = [v for v in (*variables.values(), *function.variables.values()) if v.space == "shared" and v.bytes == 0]
    return {
        "name": function.name,
        "parameters": [[offset, v.bytes] for v, offset in _launch_layout(function.parameters)],
        "static_shared_bytes": ends[function.name] - SHARED_START,
        "threads_max": function.threads_max,
        "threads_exact": function.threads_exact,
        "dynamic_align": max((v.align for v in dynamic), default=16),
    }

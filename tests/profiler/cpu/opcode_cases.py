"""PTX modules that apply single instructions to an array of inputs: three 64-bit words a thread, one word out."""

from dataclasses import dataclass

CASES_PER_KERNEL = 24
_CLASS = {"8": "b16", "16": "b16", "32": "b32", "64": "b64"}


@dataclass(frozen=True)
class Case:
    """One instruction: `opcode d, sources...`, then `extra` immediate operands.

    With `carry` the opcode is two, `first; second`: d = first(a, b), then d = second(c, a) with the carry.
    """

    opcode: str
    result: str
    sources: tuple[str, ...]
    extra: str = ""
    carry: bool = False


def register_class(kind: str) -> str:
    if kind == "pred":
        return "pred"
    if kind in {"f32", "f64"}:
        return kind
    return "b32" if kind.endswith("x2") else _CLASS[kind.lstrip("busf")]


def _from_word(kind: str, word: str, target: str) -> str:
    register = register_class(kind)
    if register in {"b64", "f64"}:
        return f"mov.b64 {target}, {word};"
    if register in {"b32", "f32"}:
        return f"cvt.u32.u64 %w, {word}; mov.b32 {target}, %w;"
    return f"cvt.u16.u64 {target}, {word};"


def _to_word(kind: str, source: str) -> str:
    register = register_class(kind)
    if register == "pred":
        return f"selp.u64 %out, 1, 0, {source};"
    if register in {"b64", "f64"}:
        return f"mov.b64 %out, {source};"
    if register in {"b32", "f32"}:
        return f"mov.b32 %w, {source}; cvt.u64.u32 %out, %w;"
    return f"cvt.u64.u16 %out, {source};"


def _snippet(case: Case, index: int) -> str:
    names = [f"%{letter}_{index}" for letter in "xyz"[: len(case.sources)]]
    lines = [f".reg .{register_class(k)} {n};" for k, n in zip(case.sources, names, strict=True)]
    lines.append(f".reg .{register_class(case.result)} %d_{index};")
    lines += [_from_word(k, f"%in{i}", n) for i, (k, n) in enumerate(zip(case.sources, names, strict=True))]
    operands = ", ".join([f"%d_{index}", *names, *([case.extra] if case.extra else [])])
    if case.carry:
        first, second = case.opcode.split("; ")
        lines.append(f"{first} %d_{index}, {names[0]}, {names[1]}; {second} %d_{index}, {names[2]}, {names[0]};")
    else:
        lines.append(f"{case.opcode} {operands};")
    lines.append(_to_word(case.result, f"%d_{index}"))
    return "\n".join(lines)


def module(chosen: list[Case]) -> str:
    """PTX module with kernels `cases_0`, `cases_1`, …: (inputs, outputs, n), outputs of shape (cases, n)."""
    kernels = []
    for number, first in enumerate(range(0, len(chosen), CASES_PER_KERNEL)):
        body = []
        for index, case in enumerate(chosen[first : first + CASES_PER_KERNEL], first):
            body.append("{\n" + _snippet(case, index))
            body.append(f"mad.lo.u64 %to, %n, {index}, %i; shl.b64 %to, %to, 3; add.u64 %to, %to, %outputs;")
            body.append("st.global.u64 [%to], %out;\n}")
        kernels.append(
            f".visible .entry cases_{number}(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n"
            ".reg .b64 %in<3>, %out, %to, %i, %n, %inputs, %outputs; .reg .b32 %w, %t, %s, %b; .reg .pred %p;\n"
            "ld.param.u64 %inputs, [p0]; ld.param.u64 %outputs, [p1]; ld.param.u64 %n, [p2];\n"
            "mov.u32 %t, %tid.x; mov.u32 %s, %ntid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %t, %b, %s, %t;\n"
            "cvt.u64.u32 %i, %t; setp.ge.u64 %p, %i, %n; @%p bra DONE;\n"
            "mad.lo.u64 %to, %i, 24, %inputs;\n"
            "ld.global.u64 %in0, [%to]; ld.global.u64 %in1, [%to+8]; ld.global.u64 %in2, [%to+16];\n"
            + "\n".join(body)
            + "\nDONE: ret;\n}\n"
        )
    return ".version 8.0\n.target sm_90\n.address_size 64\n" + "".join(kernels)

"""Pointers promise that they do not alias, and those that are only read promise that, too."""

import re

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.syntax import Assign, Call, Declare, Expression, Function, Other, Parameter, flat

__all__ = ["propose"]

NAME = "qualify_pointers"


def _root(expression: Expression) -> str:
    while expression.kind in {"subscript", "unary", "binary", "member"} and expression.operands:
        expression = expression.operands[0]
    return expression.operator if expression.kind == "name" else ""


def _only_read(function: Function, parameter: Parameter) -> bool:
    """Whether no statement can write through the parameter; in doubt, no."""
    name = parameter.name
    for statement in flat(function.body):
        match statement:
            case Assign(target=target) if target.kind != "name" and name in target.names:
                if _root(target) == name or "*" in target.type:
                    return False
            case Declare(type=of, value=Expression() as value) if name in value.names:
                if "*" in of and "const" not in of:
                    return False
                if re.search(rf"&\s*{re.escape(name)}\b|\b\w+\s*\([^()]*\b{re.escape(name)}\s*[,)]", value.text):
                    return False
            case Call(call=call) if name in call.names:
                return False
            case Other(names=names) if name in names:
                return False
    text = function.text[function.body_start : function.end]
    return not re.search(rf"\b\w+\s*\([^()]*(?<![\w\]])\b{re.escape(name)}\s*[,)+]", text)


def propose(context: Context) -> list[Edit]:
    """Propose const and __restrict__ where they hold.

    Raises:
        NotApplicable: all pointers have them, or two of them reach the same buffer.
    """
    context.require_distinct_buffers()
    changes, told = [], []
    for parameter in context.function.parameters:
        if not parameter.pointer or parameter.type.count("*") != 1 or "volatile" in parameter.type:
            continue
        text = context.text[parameter.start : parameter.end]
        plain = re.fullmatch(r"(?s)(.*?)\*\s*(?:__restrict__|__restrict)?\s*(\w+)", text)
        if plain is None or not re.fullmatch(r"[\w\s:]+", plain[1]):
            continue
        constant = "const" in plain[1].split()
        new_constant = not constant and _only_read(context.function, parameter)
        if "__restrict" in parameter.type and not new_constant:
            continue
        pointee = plain[1].strip()
        changes.append(
            (parameter.start, parameter.end, f"{'const ' if new_constant else ''}{pointee}* __restrict__ {plain[2]}")
        )
        told.append(f"`{parameter.name}`" + (" (const)" if new_constant else ""))
    if not changes:
        raise NotApplicable("every pointer is qualified already")
    return [
        context.edit(
            apply(context.text, changes),
            transformation=NAME,
            title="Pointers are __restrict__, inputs are const",
            rationale="The compiler must assume that a store changes what any other pointer reads, and loads "
            "again; told "
            "otherwise it keeps values in registers, orders loads early and uses the read-only path.",
            precondition=f"The launch passes distinct buffers; qualified: {', '.join(told)}",
            targets=[BOTTLENECK_LATENCY, BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_INSTRUCTION_OVERHEAD],
            claims=[("smsp__inst_executed.sum", DIRECTION_DECREASE)],
            prior=0.35,
        )
    ]

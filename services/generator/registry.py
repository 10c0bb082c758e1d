"""All transformations, and what they propose for a kernel."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from optiml.cuda.parse import parse_cuda
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.identity import kernel_id
from optiml.v1 import generator_service_pb2, kernel_pb2, search_pb2
from services.generator.ranking import ranked
from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import NotApplicable, constants_of
from services.generator.rewriting.normalising import plainer
from services.generator.rewriting.reading import global_functions, read_functions
from services.generator.rewriting.syntax import Function
from services.generator.transformations import (
    block_shape,
    cache_in_registers,
    coalesce,
    coarsen,
    grid_stride,
    qualify_pointers,
    stage_shared,
    tile_shared_memory,
    tile_transpose,
    unroll,
    vectorize,
    warp_reduce_rows,
)

__all__ = ["TRANSFORMATIONS", "propose"]

Propose = Callable[[Context], Sequence[search_pb2.Edit]]

TRANSFORMATIONS: Final[dict[str, Propose]] = {
    module.NAME: module.propose
    for module in (
        warp_reduce_rows,
        tile_shared_memory,
        tile_transpose,
        coalesce,
        vectorize,
        coarsen,
        grid_stride,
        cache_in_registers,
        stage_shared,
        qualify_pointers,
        unroll,
        block_shape,
    )
}
"""Each transformation by its name; those that change most come first."""

_ONCE: Final = frozenset({"block_shape", "coarsen", "grid_stride", "unroll"})
"""Transformations that only undo themselves when they are applied again."""
_LARGEST_SOURCE_BYTES: Final = 1 << 20


def _functions(kernel: kernel_pb2.Kernel) -> tuple[dict[str, Function], str]:
    """Return the kernel's functions, and why nothing can be proposed ("" if it can).

    Raises:
        InvalidArgumentError: the source is too large or wrong.
    """
    size = len(kernel.source.encode())
    if size > _LARGEST_SOURCE_BYTES:
        raise InvalidArgumentError(f"the kernel's source has {size} bytes; at most {_LARGEST_SOURCE_BYTES} are read")
    if not kernel.launches:
        problem = FieldViolation("kernel.launches", "is empty; name the __global__ function to launch")
        raise InvalidArgumentError(str(problem), [problem])
    parsed = parse_cuda(kernel.source)
    functions = read_functions(parsed)
    missing = next((found for found in parsed.diagnostics if found.fatal), None)
    if (
        missing is not None and "file not found" in missing.message
    ):  # a header of the machine's; what was understood without it may be enough
        return functions, "" if functions else f"line {missing.line}: {missing.message}"
    if parsed.diagnostics:
        first = parsed.diagnostics[0]
        problem = FieldViolation("kernel.source", f"line {first.line}: {first.message}")
        raise InvalidArgumentError(f"the kernel cannot be parsed: {problem}", [problem])
    return functions, ""


def _contexts(
    request: generator_service_pb2.ProposeRequest, kernel: kernel_pb2.Kernel, functions: dict[str, Function]
) -> tuple[list[Context], list[str]]:
    """Return a context for each function that one launch runs, and why others have none."""
    names = [launch.kernel for launch in kernel.launches]
    constants = constants_of(kernel.source)
    contexts, reasons = [], []
    for index, name in enumerate(names):
        function = functions.get(name)
        if function is None:
            if not re.search(rf"\b{re.escape(name.split('<')[0])}\b", kernel.source):
                problem = FieldViolation(f"kernel.launches[{index}].kernel", f"the source has no function `{name}`")
                raise InvalidArgumentError(str(problem), [problem])
            reasons.append(f"`{name}` is no plain __global__ function")
        elif len(kernel.launches[index].arguments) != len(function.parameters):
            given, wanted = len(kernel.launches[index].arguments), len(function.parameters)
            problem = FieldViolation(
                f"kernel.launches[{index}].arguments", f"{given} arguments for the {wanted} parameters of `{name}`"
            )
            raise InvalidArgumentError(str(problem), [problem])
        elif names.count(name) > 1:
            reasons.append(f"`{name}` is launched {names.count(name)} times")
        else:
            contexts.append(Context(request.problem, kernel, function, index, tuple(request.history), constants))
    return contexts, reasons


def _apply(name: str, contexts: list[Context], reasons: list[str]) -> tuple[list[search_pb2.Edit], str]:
    """Return a transformation's edits, and if there are none, why."""
    edits: list[search_pb2.Edit] = []
    declined = list(reasons)
    for context in contexts:
        if name in _ONCE and name in context.history:
            declined.append("it was applied on the way to this kernel")
            continue
        try:
            edits += TRANSFORMATIONS[name](context)
        except NotApplicable as reason:
            several = f"`{context.function.name}`: " if len(contexts) > 1 else ""
            declined.append(f"{several}{reason}")
    return edits, "" if edits else "; ".join(declined)


def _forms(request: generator_service_pb2.ProposeRequest) -> list[tuple[list[Context], list[str]]]:
    """Return the contexts of the kernel as written and, if it differs, of its plainer form."""
    functions, unreadable = _functions(request.kernel)
    if unreadable:
        return [([], [unreadable])]
    forms = [_contexts(request, request.kernel, functions)]
    plain = plainer(request.kernel)
    if plain != request.kernel:
        forms.append(_contexts(request, plain, global_functions(plain.source)))
    return forms


def _edits(request: generator_service_pb2.ProposeRequest) -> tuple[list[search_pb2.Edit], dict[str, str]]:
    """Return all edits, and why other transformations do not apply."""
    forms = _forms(request)
    edits: list[search_pb2.Edit] = []
    declined: dict[str, str] = {}
    seen = {kernel_id(request.kernel)}
    for name in TRANSFORMATIONS:
        for contexts, reasons in forms:
            found, reason = _apply(name, contexts, reasons)
            for edit in found:
                edit.kernel.id = kernel_id(edit.kernel)
                if edit.kernel.id not in seen:
                    seen.add(edit.kernel.id)
                    edits.append(edit)
            if found:
                declined.pop(name, None)
                break
            declined[name] = reason
    return edits, declined


def propose(request: generator_service_pb2.ProposeRequest) -> generator_service_pb2.ProposeResponse:
    """Propose edits of a kernel, most promising first.

    Raises:
        InvalidArgumentError: the kernel cannot be parsed, or its launches do not fit its functions.
    """
    if request.limit < 0:
        problem = FieldViolation("limit", f"is {request.limit}; must be 0 or more")
        raise InvalidArgumentError(str(problem), [problem])
    try:
        edits, declined = _edits(request)
    except RecursionError as error:
        raise InvalidArgumentError("the kernel's expressions are nested too deeply") from error
    response = generator_service_pb2.ProposeResponse(
        declined=[
            generator_service_pb2.Declined(transformation=name, reason=reason) for name, reason in declined.items()
        ]
    )
    response.edits.extend(ranked(edits, request.diagnosis)[: request.limit or None])
    return response

"""Another number of threads a block, known to the compiler."""

import re

from optiml.v1.search_pb2 import DIRECTION_INCREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_LATENCY, BOTTLENECK_LOW_PARALLELISM, BOTTLENECK_REGISTER_SPILLS
from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.syntax import Other, flat

__all__ = ["propose"]

NAME = "block_shape"
_SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((64,), (128,), (256,), (512,)),
    2: ((32, 4), (32, 8), (64, 4), (16, 16)),
}


def propose(context: Context) -> list[Edit]:
    """Propose other blocks for a kernel in which each thread does its own work.

    Raises:
        NotApplicable: threads of a block work together, or the block's shape is fixed in the source.
    """
    coordinates = [found for found in context.threads.coordinates.values() if not found.uniform]
    unchecked = next((found.name for found in coordinates if found.bound is None), None)
    if unchecked:
        raise NotApplicable(f"there is no bounds check of `{unchecked}`")
    body = context.text[context.function.body_start : context.function.end]
    if re.search(r"__shared__|__sync|__shfl|cooperative", body):
        raise NotApplicable("threads of a block work together")
    require_coordinates_only(context)
    axes = "".join(sorted(found.axis for found in coordinates))
    if axes not in {"x", "xy"}:
        raise NotApplicable("threads are not numbered along x, or x and y, with a bounds check")
    used = re.findall(r"\b(?:threadIdx|blockDim)\s*\.\s*([xyz])", body)
    if len(used) != 2 * len(coordinates) or body.count("blockDim") != len(coordinates) or "gridDim" in body:
        raise NotApplicable("the block's shape is used for more than the thread's number")
    if any(isinstance(found, Other) and "threadIdx" in found.names for found in flat(context.function.body)):
        raise NotApplicable("thread numbers are used in a way that is not understood")
    by_axis = {found.axis: found for found in coordinates}
    if any(extent != "1" for axis, extent in zip("xyz", context.block(), strict=True) if axis not in axes):
        raise NotApplicable("the block has an extent that the kernel does not use")
    now = [context.number(extent) for extent in context.block()]
    edits = []
    for shape in _SHAPES[len(axes)]:
        if list(shape) == now[: len(shape)]:
            continue
        threads = shape[0] * (shape[1] if len(shape) > 1 else 1)
        grid = []
        for axis, extent in zip(axes, shape, strict=True):
            bound = by_axis[axis].bound
            assert bound is not None
            grid.append(f"ceil_div({context.host(bound)}, {extent})")
        text = context.header_with_bounds(threads) + " "
        source = apply(context.text, [(context.function.start, context.function.body_start, text)])
        name = " x ".join(str(extent) for extent in shape)
        edits.append(
            context.edit(
                source,
                transformation=NAME,
                parameters={"block": "x".join(str(extent) for extent in shape)},
                title=f"Blocks of {name} threads, with launch bounds",
                rationale="The block's size decides how many blocks a multiprocessor holds and how even the "
                "last wave is; "
                "launch bounds let the compiler use the registers that this size leaves.",
                precondition="Each thread does its own work, and blockDim is used only to number the threads",
                targets=[BOTTLENECK_LATENCY, BOTTLENECK_LOW_PARALLELISM, BOTTLENECK_REGISTER_SPILLS],
                claims=[("sm__warps_active.avg.pct_of_peak_sustained_active", DIRECTION_INCREASE)],
                prior=0.3,
                grid=[*grid, *context.grid()[len(grid) :]],
                block=[*(str(extent) for extent in shape), *context.block()[len(shape) :]],
            )
        )
    return edits

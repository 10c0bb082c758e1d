"""Physical gates: a time or a count that cannot be is not believed, whatever the outputs of the checks were.

They catch what checks at smaller sizes cannot see: a kernel that leaves work out at the time sizes, and a measurement
that was tampered with or went wrong. Peaks are `optiml.devices`', with a margin for clocks above the data sheet's.
"""

import re
from collections.abc import Mapping, Sequence

from optiml.devices import DeviceModel
from optiml.v1 import evaluation_pb2, problem_pb2, verdict_pb2
from services.profiler.plan import Plan

__all__ = ["implausible"]

_SECTOR_BYTES = 32
_MARGIN = 1.2  # over the device's peaks
_LAUNCH_FLOOR_MS = 0.5e-3  # less than any launch takes between two events, several in a row included
_SCHEDULERS = 4  # a multiprocessor; each issues one instruction of a warp a cycle
# Simulated counters stand on a sample of blocks: only a gross lack of stores is a fact, and only on large outputs.
_LEAST_STORED = {verdict_pb2.PROVENANCE_MEASURED: 0.98, verdict_pb2.PROVENANCE_SIMULATED: 0.25}
_LEAST_OUTPUT_BYTES = 1 << 20
_STORED_BY = ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors_op_write.sum")
_ADDED_BY = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("atom", "red"))
_ATOMIC = re.compile(r"\b(?:atom|red)\.(?!shared)")
_BULK_STORE = re.compile(r"\bcp\.(?:async\.bulk|reduce)|\bmultimem\.")


def _rates(values: Mapping[str, float], model: DeviceModel) -> list[tuple[str, float, float, str]]:
    """Return what was counted, with the device's peak for it, per second."""
    fused = values.get("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 0.0)
    issue = model.multiprocessors * _SCHEDULERS * model.clock_ghz * 1e9
    return [
        ("bytes from and to DRAM", values.get("dram__bytes.sum", 0.0), model.dram_bytes_per_second, "bytes/s"),
        ("fp32 operations", 2 * fused, model.fp32_flops, "flop/s"),
        ("warp instructions", values.get("smsp__inst_executed.sum", 0.0), issue, "instructions/s"),
    ]


def _unstored(problem: problem_pb2.Problem, plan: Plan, values: Mapping[str, float], ptx: str, least: float) -> str:
    """Return what is wrong with the bytes that were stored, empty if nothing is."""
    if _BULK_STORE.search(ptx) or (_ATOMIC.search(ptx) and not any(name in values for name in _ADDED_BY)):
        return ""  # these write without being counted as stores
    optional = {argument.name for argument in problem.arguments if argument.may_be_unwritten}
    outputs = sum(b.size_bytes for b in plan.buffers if b.role == "out" and b.name not in optional)
    counted = [values[name] for name in _STORED_BY if name in values]
    if outputs < _LEAST_OUTPUT_BYTES or not counted:
        return ""
    stored = (max(counted) + sum(values.get(name, 0.0) for name in _ADDED_BY)) * _SECTOR_BYTES
    if stored >= least * outputs:
        return ""
    return f"it stores {stored:.4g} bytes at the time size, but its outputs have {outputs:.4g}"


def implausible(
    problem: problem_pb2.Problem,
    plan: Plan,
    timing: evaluation_pb2.Timing,
    metrics: Sequence[evaluation_pb2.Metric],
    model: DeviceModel,
    ptx: str,
) -> str:
    """Return why a timing and its counters cannot be true, empty if they can.

    Args:
        problem: tells the outputs.
        plan: at the timing's size.
        timing: at the first time size.
        metrics: counters of one run at that size, all of one provenance; those that are missing are not asked.
        model: the device's peaks.
        ptx: of the kernel.
    """
    values = {metric.name: metric.value for metric in metrics}
    if metrics and (reason := _unstored(problem, plan, values, ptx, _LEAST_STORED[metrics[0].provenance])):
        return reason
    if timing.provenance != verdict_pb2.PROVENANCE_MEASURED:
        return ""
    floor_ms = _LAUNCH_FLOOR_MS * len(plan.launches)
    if timing.median_ms < floor_ms:
        return f"{timing.median_ms:.3g} ms for {len(plan.launches)} launches; launching alone takes {floor_ms:.3g} ms"
    for what, counted, peak, unit in _rates(values, model):
        rate = counted / (timing.median_ms * 1e-3)
        if rate > _MARGIN * peak:
            return (
                f"{counted:.3g} {what} in {timing.median_ms:.3g} ms are {rate:.3g} {unit}; {model.name} has {peak:.3g}"
            )
    return ""

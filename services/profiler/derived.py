"""Facts that follow from counters, resources and times: ratios under `optiml__` names, rooflines, launch figures."""

from collections.abc import Iterator, Mapping

from optiml.devices import DeviceModel, occupancy
from optiml.metrics import METRICS
from optiml.v1 import evaluation_pb2, problem_pb2, verdict_pb2
from services.profiler.compile import Compiled
from services.profiler.plan import Plan

__all__ = ["as_metrics", "compulsory_bytes", "derived_metrics", "launch_figures", "resources_at", "roofline_ms"]

_SECTOR_BYTES = 32
_LD, _ST = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
_FLOPS = {
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 2,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 1,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 1,
}


def compulsory_bytes(problem: problem_pb2.Problem, plan: Plan) -> int:
    """Return the bytes that must move: every input read once, every output written once."""
    times = {"in": 1, "out": 1, "inout": 2, "scratch": 0}
    arguments = {argument.name for argument in problem.arguments}
    return sum(buffer.size_bytes * times[buffer.role] for buffer in plan.buffers if buffer.name in arguments)


def roofline_ms(problem: problem_pb2.Problem, plan: Plan, values: Mapping[str, float], model: DeviceModel) -> float:
    """Return the physical lower bound of this computation on a device.

    Bytes are the problem's. Operations are those that the kernel executes in fp32 (0 where they were not counted): a
    problem does not tell how many it needs, so for a kernel that computes things twice the bound is too high.
    """
    by_bytes = compulsory_bytes(problem, plan) / model.dram_bytes_per_second
    by_operations = sum(values.get(name, 0.0) * weight for name, weight in _FLOPS.items()) / model.fp32_flops
    return max(by_bytes, by_operations) * 1e3


def resources_at(compiled: Compiled, plan: Plan, model: DeviceModel) -> list[evaluation_pb2.Resources]:
    """Return each launched function's resources, with the occupancy of its largest launch."""
    found = []
    for name, known in compiled.resources.items():
        resources = evaluation_pb2.Resources()
        resources.CopyFrom(known)
        launches = [launch for launch in plan.launches if launch.kernel == name]
        if launches:
            largest = max(launches, key=lambda launch: launch.blocks * launch.threads)
            shared = known.static_shared_memory_bytes + largest.dynamic_shared_bytes
            fits = occupancy(model, largest.threads, known.registers, shared)
            resources.occupancy, resources.occupancy_limiter = fits.fraction, fits.limiter
        found.append(resources)
    return found


def launch_figures(compiled: Compiled, plan: Plan, model: DeviceModel) -> Iterator[tuple[str, float]]:
    """Yield what the plan and the compiler alone tell: registers, occupancy, grid, waves, spills."""
    fractions, waves = [], []
    for launch in plan.launches:
        resources = compiled.resources[launch.kernel]
        shared = resources.static_shared_memory_bytes + launch.dynamic_shared_bytes
        fits = occupancy(model, launch.threads, resources.registers, shared)
        fractions.append(fits.fraction)
        waves.append(launch.blocks / (max(fits.blocks, 1) * model.multiprocessors))
    used = compiled.resources.values()
    yield "launch__registers_per_thread", max(r.registers for r in used)
    yield "sm__maximum_warps_per_active_cycle_pct", 100 * min(fractions)
    yield "launch__grid_size", max(launch.blocks for launch in plan.launches)
    yield "launch__waves_per_multiprocessor", max(waves)
    yield "optiml__spill_bytes", max(r.spill_load_bytes + r.spill_store_bytes for r in used)


def derived_metrics(
    values: Mapping[str, float], problem: problem_pb2.Problem, plan: Plan, timing: evaluation_pb2.Timing
) -> Iterator[tuple[str, float]]:
    """Yield the ratios that follow from raw counters and the time.

    Args:
        values: counters by name; those that are missing leave their ratios out.
        problem: tells which bytes must move.
        plan: at the first time size.
        timing: at the first time size.
    """
    for direction, name in (("ld", _LD), ("st", _ST)):
        requests = values.get(name.format("requests"), 0.0)
        if requests:
            yield f"optiml__sectors_per_request_{direction}", values.get(name.format("sectors"), 0.0) / requests
    sectors = values.get(_LD.format("sectors"), 0.0) + values.get(_ST.format("sectors"), 0.0)
    if sectors:
        yield "optiml__traffic_over_compulsory", sectors * _SECTOR_BYTES / compulsory_bytes(problem, plan)
    if timing.median_ms > 0:
        yield "optiml__time_ms", timing.median_ms
        yield "optiml__roofline_fraction", timing.roofline_ms / timing.median_ms


def as_metrics(
    values: Iterator[tuple[str, float]], provenance: verdict_pb2.Provenance.ValueType
) -> Iterator[evaluation_pb2.Metric]:
    """Yield values as metrics; names that `optiml.metrics` does not describe are left out."""
    for name, value in values:
        if name in METRICS:
            yield evaluation_pb2.Metric(name=name, value=value, provenance=provenance)

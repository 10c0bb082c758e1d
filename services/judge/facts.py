"""What an evaluation tells about where the time goes, as shares of the time.

The share of a part of the device (DRAM, a pipe) is the time that it would need alone, over the time that was taken. The
part with the largest share limits the kernel; what no part explains is waiting.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optiml.data_types import SHORT_NAMES, size_bytes
from optiml.devices import DeviceModel, device_model
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError
from optiml.problem import buffer_elements, parameters_of
from optiml.v1 import evaluation_pb2, problem_pb2, verdict_pb2

__all__ = ["Facts", "read_facts"]

SECTOR_BYTES = 32
_SCHEDULERS = 4  # of a multiprocessor; each issues one warp instruction a cycle
_LINE_SECTORS = 4
_SCATTERED = 16.0  # sectors a request
_XU_PER_CYCLE = 0.5  # warp instructions a cycle and multiprocessor: 16 lanes
_LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_ST_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


@dataclass(frozen=True, slots=True)
class Facts:
    """Metrics, time and device of one evaluation. A share is None where its counters are missing."""

    metrics: Mapping[str, float]
    provenances: Mapping[str, verdict_pb2.Provenance.ValueType]
    seconds: float
    """One run at the first time size."""
    model: DeviceModel | None
    """None if the device is not known: then there are no peak rates."""
    element_bytes: int
    """Of an element of the problem's largest buffer."""

    def get(self, name: str) -> float | None:
        """Return a metric, or None if it is absent."""
        return self.metrics.get(name)

    def total(self, *names: str) -> float | None:
        """Return the sum of those metrics that are present, or None if all are absent."""
        present = [self.metrics[name] for name in names if name in self.metrics]
        return sum(present) if present else None

    def rate_share(self, amount: float | None, per_second: float) -> float | None:
        """Return the share of the time that an amount of work needs at a peak rate."""
        return None if amount is None else amount / per_second / self.seconds

    def cycle_share(self, cycles: float | None) -> float | None:
        """Return the share of the cycles of those multiprocessors that have work, spread evenly over them."""
        if self.model is None or cycles is None:
            return None
        return self.rate_share(cycles, self.model.clock_ghz * 1e9 * self.model.multiprocessors * self.busy)

    @property
    def busy(self) -> float:
        """Fraction of the multiprocessors that have work, if each holds one block at a time; 1 if unknown."""
        blocks = self.get("launch__grid_size")
        if self.model is None or not blocks:
            return 1.0
        most = self.model.multiprocessors
        return blocks / (-(-blocks // most) * most)

    @property
    def dram_bytes(self) -> float | None:
        """Bytes to and from DRAM."""
        return self.get("dram__bytes.sum")

    @property
    def sectors(self) -> float | None:
        """Sectors of global loads and stores at L1."""
        return self.total(_LD_SECTORS, _ST_SECTORS)

    @property
    def compulsory_bytes(self) -> float | None:
        """Bytes that must move, as the profiler counted them from the problem."""
        ratio = self.get("optiml__traffic_over_compulsory")
        return self.sectors * SECTOR_BYTES / ratio if ratio and self.sectors is not None else None

    @property
    def wasted_sectors(self) -> float:
        """Fraction of the sectors that no thread asked for, 0 to 1.

        A request of 32 neighbouring elements needs as many sectors as an element has bytes. Wider requests (float4)
        need more, so at least the compulsory bytes count as needed.
        """
        requests = self.total(_LD_SECTORS.replace("sectors", "requests"), _ST_SECTORS.replace("sectors", "requests"))
        if not requests or not self.sectors:
            return 0.0
        needed = max(requests * self.element_bytes, (self.compulsory_bytes or 0.0) / SECTOR_BYTES)
        return max(0.0, 1.0 - needed / self.sectors)

    def wasted_by(self, kind: str) -> float:
        """Return the sectors beyond need of all global loads ("ld") or stores ("st")."""
        requests = self.metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum", 0.0)
        return requests * max(0.0, self.metrics.get(f"optiml__sectors_per_request_{kind}", 0.0) - self.element_bytes)

    @property
    def dram_share(self) -> float | None:
        """DRAM bytes over peak bandwidth times time."""
        return None if self.model is None else self.rate_share(self.dram_bytes, self.model.dram_bytes_per_second)

    @property
    def l2_share(self) -> float | None:
        """Sectors of L2 over its peak bandwidth times time."""
        sectors = self.total("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum")
        if self.model is None or sectors is None:
            return None
        return self.rate_share(sectors * SECTOR_BYTES, self.model.l2_bytes_per_second)

    @property
    def l1_share(self) -> float | None:
        """Cycles of L1's tag and data stages: a request, a line, four sectors or one shared wavefront a cycle."""
        wavefronts = self.total(
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        )
        if self.sectors is None and wavefronts is None:
            return None
        computed = self.cycle_share(self._global_cycles + (wavefronts or 0.0))
        return _larger(computed, self._measured("l1tex__throughput.avg.pct_of_peak_sustained_active"))

    @property
    def _global_cycles(self) -> float:
        cycles = 0.0
        for sectors_name in (_LD_SECTORS, _ST_SECTORS):
            sectors = self.metrics.get(sectors_name, 0.0)
            requests = self.metrics.get(sectors_name.replace("sectors", "requests"), 0.0)
            # Nobody counts lines. Few sectors a request are taken to be neighbours; many, to be a line each.
            scattered = sectors > _SCATTERED * requests
            cycles += max(requests, sectors if scattered else sectors / _LINE_SECTORS)
        return cycles

    def _measured(self, percentage: str) -> float | None:
        """Return a utilisation that hardware counted, as a share."""
        if self.provenances.get(percentage) != verdict_pb2.PROVENANCE_MEASURED:
            return None
        return self.metrics[percentage] / 100

    @property
    def issue_share(self) -> float | None:
        """Warp instructions over the schedulers' issue slots."""
        instructions = self.get("smsp__inst_executed.sum")
        computed = self.cycle_share(None if instructions is None else instructions / _SCHEDULERS)
        return _larger(computed, self._measured("smsp__issue_active.avg.pct_of_peak_sustained_active"))

    @property
    def pipe_shares(self) -> dict[str, float]:
        """Shares of the FMA, FP64 and transcendental pipes, by the metric that counts their instructions."""
        if self.model is None:
            return {}
        fma, fp64, xu = (f"sm__inst_executed_pipe_{pipe}.sum" for pipe in ("fma", "fp64", "xu"))
        shares = {
            fma: self.rate_share(self.get(fma), self.model.fp32_flops / 64 * self.busy),
            fp64: self.rate_share(self.get(fp64), self.model.fp64_flops / 64 * self.busy),
            xu: self.cycle_share(_divided(self.get(xu), _XU_PER_CYCLE)),
        }
        return {name: share for name, share in shares.items() if share is not None}

    @property
    def arithmetic_share(self) -> float | None:
        """The busiest pipe's share."""
        return max(self.pipe_shares.values(), default=None)

    @property
    def busiest_share(self) -> float | None:
        """The largest share of any part; None if none is known."""
        shares = (self.dram_share, self.l2_share, self.l1_share, self.issue_share, self.arithmetic_share)
        known = [share for share in shares if share is not None]
        return max(known) if known else None


def read_facts(problem: problem_pb2.Problem, evaluation: evaluation_pb2.Evaluation) -> Facts:
    """Read the facts out of an evaluation.

    Raises:
        InvalidArgumentError: its verdict is not OK, or it has no times.
    """
    if evaluation.verdict != verdict_pb2.VERDICT_OK:
        violation = FieldViolation("evaluation.verdict", "is not OK; only a correct kernel can be diagnosed")
        raise InvalidArgumentError(str(violation), [violation])
    if not evaluation.timings or not evaluation.timings[0].median_ms > 0:
        violation = FieldViolation("evaluation.timings", "has no time to explain; give the problem a time size")
        raise InvalidArgumentError(str(violation), [violation])
    try:
        model = device_model(evaluation.device.name)
    except KeyError:
        model = None
    return Facts(
        # A counter that is negative or no number was not read; it counts as absent.
        metrics={m.name: m.value for m in evaluation.metrics if math.isfinite(m.value) and m.value >= 0},
        provenances={metric.name: metric.provenance for metric in evaluation.metrics},
        seconds=evaluation.timings[0].median_ms / 1e3,
        model=model,
        element_bytes=_element_bytes(problem),
    )


def _element_bytes(problem: problem_pb2.Problem) -> int:
    parameters = parameters_of(problem.time[0]) if problem.time else {}
    buffers = [a for a in problem.arguments if a.role != problem_pb2.ROLE_SCALAR and a.data_type in SHORT_NAMES]
    try:
        largest = max(buffers, key=lambda a: buffer_elements(a, parameters), default=None)
    except ExpressionError:
        largest = None
    return size_bytes(largest.data_type) if largest is not None else 4


def _larger(one: float | None, other: float | None) -> float | None:
    return max((share for share in (one, other) if share is not None), default=None)


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor

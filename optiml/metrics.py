"""The names that diagnosis, claims and counters share: Nsight Compute's, with unit and meaning; no other name is used.

Where a name of ours is needed (derived ratios, static facts), it starts with `optiml__`. Sums are over all launches of
one run. A name is in the table only if Nsight Compute documents it: `ncu --query-metrics --query-metrics-mode suffix`,
"Launch Metrics" and "Metrics Guide" of https://docs.nvidia.com/nsight-compute/ProfilingGuide/.
"""

from dataclasses import dataclass

__all__ = ["METRICS", "Description"]


@dataclass(frozen=True, slots=True)
class Description:
    """What a metric is."""

    unit: str
    """Unit of the value, as in "sector" or "byte"; "" for a plain ratio."""
    meaning: str
    """One phrase for a person."""
    asked: bool = True
    """Whether Nsight Compute is asked for it: not for what launch, compiler or other metrics tell, nor for what only
    the CPU executor's estimate reads, since every pass costs time."""


def _unasked(unit: str, meaning: str) -> Description:
    return Description(unit, meaning, asked=False)


METRICS: dict[str, Description] = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": Description("request", "warp-level global load requests"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": Description("request", "warp-level global store requests"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": Description("sector", "32-byte sectors that global loads touch"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": Description("sector", "32-byte sectors that global stores touch"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum": Description("request", "warp-level global atomic requests"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum": Description("sector", "sectors that global atomics touch"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum": Description("sector", "sectors that global reductions touch"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": Description("wavefront", "shared-memory load cycles"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": Description("wavefront", "shared-memory store cycles"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": Description("cycle", "extra cycles of shared loads"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": Description("cycle", "extra cycles of shared stores"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": Description("wavefront", "shared-memory atomic cycles"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum": Description("cycle", "extra shared-atomic cycles"),
    "lts__t_sectors_op_read.sum": Description("sector", "sectors read from L2"),
    "lts__t_sectors_op_write.sum": Description("sector", "sectors written to L2"),
    "dram__bytes_read.sum": Description("byte", "bytes read from DRAM"),
    "dram__bytes_write.sum": Description("byte", "bytes written to DRAM"),
    "dram__bytes.sum": Description("byte", "bytes read from and written to DRAM"),
    "smsp__inst_executed.sum": Description("instruction", "warp instructions executed"),
    "smsp__thread_inst_executed.sum": Description("instruction", "thread instructions executed"),
    "sm__inst_executed_pipe_fma.sum": Description("instruction", "warp instructions on the FMA pipe"),
    "sm__inst_executed_pipe_fp64.sum": Description("instruction", "warp instructions on the FP64 pipe"),
    "sm__inst_executed_pipe_alu.sum": Description("instruction", "warp instructions on the ALU pipe"),
    "sm__inst_executed_pipe_xu.sum": Description("instruction", "warp instructions on the transcendental pipe"),
    "sm__inst_executed_pipe_lsu.sum": Description("instruction", "warp instructions on the load-store pipe"),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": Description("instruction", "fused multiply-adds"),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": Description("instruction", "fp32 additions"),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": Description("instruction", "fp32 multiplications"),
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": _unasked("instruction", "fp64 fused multiply-adds"),
    "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum": _unasked("instruction", "fp64 additions"),
    "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum": _unasked("instruction", "fp64 multiplications"),
    "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum": _unasked("instruction", "fp16 fused multiply-adds"),
    "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum": _unasked("instruction", "fp16 additions"),
    "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum": _unasked("instruction", "fp16 multiplications"),
    "sm__inst_executed_pipe_fp16.sum": _unasked("instruction", "warp instructions on the FP16 pipe"),
    "smsp__inst_executed_op_shared_ld.sum": _unasked("instruction", "warp-level shared loads"),
    "smsp__inst_executed_op_shared_st.sum": _unasked("instruction", "warp-level shared stores"),
    "smsp__inst_executed_op_shared_atom.sum": _unasked("instruction", "warp-level shared atomics"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": Description("%", "SM speed of light"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": Description("%", "memory speed of light"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": Description("%", "DRAM speed of light"),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": Description("%", "L1/TEX speed of light"),
    "lts__t_sector_hit_rate.pct": Description("%", "L2 hit rate"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": Description("%", "achieved occupancy"),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": Description("%", "cycles that issue an instruction"),
    "gpu__time_duration.sum": Description("ns", "time of the launches under the counter tool"),
    "launch__registers_per_thread": _unasked("register", "registers a thread, the most of all launches"),
    "sm__maximum_warps_per_active_cycle_pct": _unasked("%", "theoretical occupancy, the least of all launches"),
    "launch__grid_size": _unasked("block", "blocks of the largest launch"),
    "launch__waves_per_multiprocessor": _unasked("wave", "blocks over what the device holds at once"),
    "optiml__spill_bytes": _unasked("byte", "register spills a thread, loads and stores"),
    "optiml__sectors_per_request_ld": _unasked("sector", "sectors a global load request; 4 is ideal for 32-bit"),
    "optiml__sectors_per_request_st": _unasked("sector", "sectors a global store request; 4 is ideal for 32-bit"),
    "optiml__traffic_over_compulsory": _unasked("", "L1 sector bytes over the bytes that must move"),
    "optiml__time_ms": _unasked("ms", "time of one run at the first time size"),
    "optiml__roofline_fraction": _unasked("", "physical lower bound over time; 1 is the roofline"),
}

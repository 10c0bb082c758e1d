"""Names the totals of a launch as Nsight Compute names its counters.

Memory counters are exact for the model in runtime/counters.cc; DRAM bytes are lower bounds (each sector once).
Instruction counters count PTX instructions by the mapping in `services.profiler.cpu.mix`: close to, not equal to what
SASS gives.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Counters = dict[str, float]
SECTOR_BYTES = 32

# In the order of `MemoryCounter` in runtime/counters.h.
MEMORY_NAMES = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_shared_atom.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
# In the order of `Traffic` in runtime/traffic.h.
TRAFFIC_NAMES = (
    "load_lines",
    "load_misses",
    "load_warp_sectors",
    "load_block_sectors",
    "store_lines",
    "store_sectors",
    "store_block_sectors",
)
# Class of `mix.block_mix` -> counter over warps.
_WARP_NAMES = {
    "inst": "smsp__inst_executed.sum",
    "fma": "sm__inst_executed_pipe_fma.sum",
    "fp64": "sm__inst_executed_pipe_fp64.sum",
    "fp16": "sm__inst_executed_pipe_fp16.sum",
    "alu": "sm__inst_executed_pipe_alu.sum",
    "xu": "sm__inst_executed_pipe_xu.sum",
    "lsu": "sm__inst_executed_pipe_lsu.sum",
}
# Class -> counter over threads.
_THREAD_NAMES = {"inst": "smsp__thread_inst_executed.sum"} | {
    name: f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"
    for name in ("ffma", "fadd", "fmul", "dfma", "dadd", "dmul", "hfma", "hadd", "hmul")
}


def name_counters(
    memory: NDArray[np.uint64],
    warp_blocks: NDArray[np.uint64],
    thread_blocks: NDArray[np.uint64],
    mixes: Sequence[Mapping[str, int]],
) -> Counters:
    """Sums up one launch.

    Args:
        memory: Totals, shape (len(MEMORY_NAMES),).
        warp_blocks: Times that warps entered each basic block, shape (blocks,).
        thread_blocks: Times that threads did, shape (blocks,).
        mixes: Instructions by class of each basic block.
    """
    counters = {name: float(value) for name, value in zip(MEMORY_NAMES, memory, strict=True)}
    for name in ("dram__bytes_read.sum", "dram__bytes_write.sum"):
        counters[name] *= SECTOR_BYTES
    for names, entered in ((_WARP_NAMES, warp_blocks), (_THREAD_NAMES, thread_blocks)):
        for kind, name in names.items():
            counters[name] = float(sum(int(n) * mix.get(kind, 0) for n, mix in zip(entered, mixes, strict=True)))
    return counters

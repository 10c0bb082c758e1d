"""Limits and peak rates of GPUs, for occupancy, rooflines and estimates.

Peak rates of the H200 are measured (copy bandwidth, fp32); those of the others are the vendor's data sheets. Limits
are from the CUDA C++ Programming Guide, "Compute Capabilities".
"""

from dataclasses import dataclass

__all__ = ["DEVICES", "DeviceModel", "Occupancy", "device_model", "occupancy"]


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """One GPU."""

    name: str
    """Short name, as in "H200"."""
    architecture: str
    """As nvcc writes it, "sm_90"."""
    multiprocessors: int
    clock_ghz: float
    """Boost clock under load."""
    dram_bytes_per_second: float
    l2_bytes_per_second: float
    l2_bytes: int
    fp32_flops: float
    """Fused multiply-adds count as two."""
    fp64_flops: float
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_memory_per_multiprocessor_bytes: int
    shared_memory_per_block_bytes: int
    """With opt-in."""
    registers_per_multiprocessor: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    reserved_shared_memory_per_block_bytes: int = 1024


DEVICES: dict[str, DeviceModel] = {
    model.name: model
    for model in (
        DeviceModel("A100", "sm_80", 108, 1.41, 1.75e12, 4.5e12, 40 << 20, 19.5e12, 9.7e12, 2048, 32, 167936, 166912),
        DeviceModel("H100", "sm_90", 132, 1.83, 3.0e12, 5.5e12, 50 << 20, 60e12, 30e12, 2048, 32, 233472, 232448),
        DeviceModel("H200", "sm_90", 132, 1.83, 4.3e12, 5.5e12, 60 << 20, 60e12, 30e12, 2048, 32, 233472, 232448),
        DeviceModel("L4", "sm_89", 58, 2.04, 2.7e11, 2.0e12, 48 << 20, 30.3e12, 4.7e11, 1536, 24, 102400, 101376),
        DeviceModel("RTX4090", "sm_89", 128, 2.52, 9.4e11, 5.0e12, 72 << 20, 82.6e12, 1.3e12, 1536, 24, 102400, 101376),
    )
}


def device_model(name: str) -> DeviceModel:
    """Return the model that a device's name stands for: an exact name, or a full one such as "NVIDIA A100-SXM4-80GB".

    Raises:
        KeyError: the name stands for no device that is known.
    """
    compact = name.upper().replace(" ", "").replace("-", "").replace("GEFORCE", "")
    for known in sorted(DEVICES, key=len, reverse=True):
        if known in compact:
            return DEVICES[known]
    raise KeyError(f"unknown device {name!r} (known: {', '.join(DEVICES)})")


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks fit on a multiprocessor, and why not more."""

    blocks: int
    warps: int
    fraction: float
    """Resident warps over the most that fit, 0 to 1."""
    limiter: str
    """ "warps", "blocks", "registers" or "shared memory"."""


def occupancy(model: DeviceModel, threads: int, registers: int, shared_memory_bytes: int) -> Occupancy:
    """Return the theoretical occupancy of a launch (CUDA C++ Best Practices Guide, "Occupancy").

    Args:
        model: the device.
        threads: threads a block.
        registers: registers a thread; allocated to a warp in units of 256.
        shared_memory_bytes: static and dynamic, a block.
    """
    warps = -(-threads // 32)
    most_warps = model.threads_per_multiprocessor // 32
    limits = {"warps": most_warps // warps, "blocks": model.blocks_per_multiprocessor}
    if registers:
        warp_registers = -(-registers * 32 // 256) * 256
        limits["registers"] = (model.registers_per_multiprocessor // warp_registers) // 4 * 4 // warps
    if shared_memory_bytes:
        block_bytes = -(-(shared_memory_bytes + model.reserved_shared_memory_per_block_bytes) // 128) * 128
        limits["shared memory"] = model.shared_memory_per_multiprocessor_bytes // block_bytes
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / most_warps, limiter)

"""What this machine can do for a profiler, and the cure for what it cannot. Never fails."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from optiml.errors import PreconditionError
from optiml.sandboxing import landlock
from optiml.v1 import profiler_service_pb2
from services.profiler.cuda.ncu import find_ncu
from services.profiler.toolchain import find_host_compiler, find_toolchain

__all__ = ["capability", "counters", "machine_capabilities", "require_gpu_software"]

_PARAMETERS = Path("/proc/driver/nvidia/params")
_CURE_COUNTERS = (
    "let users read counters: the kernel module option NVreg_RestrictProfilingToAdminUsers=0, then reboot "
    "(developer.nvidia.com/ERR_NVGPUCTRPERM)"
)


def capability(name: str, find: Callable[[], str]) -> profiler_service_pb2.Capability:
    """Return a capability from a function that says what was found, or raises PreconditionError with the cure."""
    try:
        return profiler_service_pb2.Capability(name=name, available=True, found=find())
    except PreconditionError as error:
        what, _, cure = str(error).partition(": ")
        return profiler_service_pb2.Capability(name=name, available=False, found=what, cure=cure or what)


def _compiler() -> str:
    tools = find_toolchain()
    return f"nvcc {tools.version} ({tools.nvcc.parent})"


def _host_compiler() -> str:
    compiler = find_host_compiler()
    return f"g++ {compiler.version} ({compiler.gxx.parent})"


def _sandbox() -> str:
    version = landlock.abi_version()
    if version == 0:
        raise PreconditionError(
            "limits and clean environment only, no Landlock: run Linux 5.13 or later with Landlock enabled"
        )
    return f"Landlock ABI {version}, no_new_privs, limits, clean environment"


def counters() -> str:
    """Say how counters would be read on a GPU.

    Raises:
        PreconditionError: they cannot be, with the cure.
    """
    if not _PARAMETERS.exists():
        raise PreconditionError("no NVIDIA driver: counters are simulated by the CPU executor; nothing to do")
    tool = find_ncu(find_toolchain())
    if tool is None:
        raise PreconditionError("ncu is not installed: install Nsight Compute, as in the package cuda-nsight-compute")
    if "RmProfilingAdminOnly: 1" in _PARAMETERS.read_text() and not _is_admin():
        raise PreconditionError(f"the driver keeps counters for administrators: {_CURE_COUNTERS}")
    return f"ncu ({tool})"


def _is_admin() -> bool:
    """Return whether this process has CAP_SYS_ADMIN, which the driver accepts."""
    status = Path("/proc/self/status").read_text()
    effective = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    return bool(int(effective.split()[1], 16) >> 21 & 1)


def require_gpu_software() -> None:
    """Find what a GPU worker needs before one is started.

    Raises:
        PreconditionError: the driver or CuPy is missing, with the cure.
    """
    if not Path("/dev/nvidiactl").exists():
        raise PreconditionError("no NVIDIA driver: install one, and let this process see /dev/nvidia*")
    if importlib.util.find_spec("cupy") is None:
        raise PreconditionError("CuPy is not installed: `pip install 'optiml[cuda]'`")


def machine_capabilities() -> list[profiler_service_pb2.Capability]:
    """Return what needs no worker to be known: compilers, counters, sandbox."""
    return [
        capability("compiler", _compiler),
        capability("host-compiler", _host_compiler),
        capability("counters", counters),
        capability("sandbox", _sandbox),
    ]

"""Compiles PTX to a shared object that `services.profiler.cpu.execute` loads."""

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from services.profiler.cpu.translate import translate

_RUNTIME = Path(__file__).parent / "runtime"
# -ffp-contract=off: PTX says where a multiplication and an addition fuse. No strict aliasing: kernels reinterpret
# memory. x86-64-v3 has FMA and half conversions.
_FLAGS = [
    *("-std=c++20", "-march=x86-64-v3", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-fno-exceptions"),
    *("-fno-stack-protector", "-fno-stack-clash-protection", "-fno-math-errno", "-w"),
]
_FEATURES = {"avx2", "bmi2", "f16c", "fma"}
_LOG_BYTES = 16384


class BuildFailed(Exception):  # noqa: N818  the name that the stages of an evaluation use
    """The host compiler refused the translation, took too long or is not there.

    Attributes:
        log: What it said, at most 16 KiB.
    """

    def __init__(self, log: str) -> None:
        self.log = log[:_LOG_BYTES]
        super().__init__(f"the host compiler failed: {self.log.strip() or 'no output'}")


def build(ptx: str, out: Path, *, cache: Path, optimisation: int = 1, time_limit_s: float = 120.0) -> None:
    """Writes the shared object for a PTX module at `out`, atomically.

    Args:
        ptx: Text as `nvcc -ptx -lineinfo` writes it.
        out: The file to write; its folder exists.
        cache: Folder for the compiled runtime, made on first use and shared by all builds, also by parallel ones.
        optimisation: -O level of g++ for the kernels.
        time_limit_s: Limit for each run of the compiler.

    Raises:
        UnsupportedPtx: The module uses something that the executor does not run.
        BuildFailed: The compiler failed.
    """
    text = translate(ptx)
    _check_processor()
    runtime = _runtime_object(cache, time_limit_s)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=out.parent) as folder:
        source, made = Path(folder) / "kernel.cc", Path(folder) / "kernel.so"
        source.write_text(text)
        options = [f"-O{optimisation}", "-shared", "-Wl,-z,now", f"-I{_RUNTIME}", "-o", str(made), str(source)]
        _run_compiler([*_FLAGS, *options, str(runtime)], time_limit_s)
        made.replace(out)


def _check_processor() -> None:
    """Refuses a host whose processor would stop at the first vector instruction."""
    if platform.machine() != "x86_64":
        raise BuildFailed(f"the CPU executor needs an x86-64 processor, this is {platform.machine()}")
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else _FEATURES
    if missing := _FEATURES - flags:
        raise BuildFailed(f"the processor lacks {', '.join(sorted(missing))}, which the CPU executor needs")


def _runtime_object(cache: Path, time_limit_s: float) -> Path:
    """Path of the runtime as one relocatable object, named by the hash of its sources, flags and compiler."""
    sources = sorted(_RUNTIME.glob("*.cc"))
    key = hashlib.sha256(_run_compiler(["--version"], time_limit_s).encode())
    for path in sorted(_RUNTIME.iterdir()):
        key.update(path.name.encode() + path.read_bytes())
    key.update(" ".join(_FLAGS).encode())
    made = cache / f"runtime-{key.hexdigest()[:16]}.o"
    if made.exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".runtime-", dir=cache) as folder:
        objects = []
        for source in sources:
            objects.append(f"{folder}/{source.stem}.o")
            rounding = ["-frounding-math"] if source.stem == "numerics" else []
            options = ["-O2", *rounding, "-c", str(source), "-o", objects[-1]]
            _run_compiler([*_FLAGS, *options], time_limit_s)
        _run_compiler(["-r", "-nostdlib", "-o", f"{folder}/all.o", *objects], time_limit_s)
        Path(folder, "all.o").replace(made)
    return made


def _run_compiler(arguments: Sequence[str], time_limit_s: float) -> str:
    # g++ writes between its stages; a sandbox allows that only in the folder that it gives.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TMPDIR": tempfile.gettempdir()}
    try:
        done = subprocess.run(
            ["g++", *arguments],  # noqa: S607  the toolchain on PATH is the one to use
            capture_output=True,
            text=True,
            timeout=time_limit_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"g++ took longer than {time_limit_s:g} s") from error
    except FileNotFoundError as error:
        raise BuildFailed("g++ is not installed or not on PATH") from error
    if done.returncode != 0:
        raise BuildFailed(done.stderr or f"g++ ended with {done.returncode}")
    return done.stdout

"""Compiles the kernels of this folder once and gives each test a fresh device memory."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.profiler.cpu.build import build
from services.profiler.cpu.execute import Buffer, DeviceMemory, LaunchResult, Program, run_launch

KERNELS = Path(__file__).parent / "kernels"


@dataclass
class Device:
    """One module with its memory."""

    program: Program

    def array(self, content: NDArray[Any]) -> Buffer:
        buffer = self.program.memory.allocate(content.nbytes)
        buffer.array(content.dtype, content.shape)[...] = content
        return buffer

    def output(self, nbytes: int) -> Buffer:
        buffer = self.program.memory.allocate(nbytes, initialised=False)
        buffer.view[:] = 0xFF
        return buffer

    def run(self, entry: str, grid: Any, block: Any, arguments: Any, **options: Any) -> LaunchResult:
        defaults: dict[str, Any] = {"check": True, "count": False, "dynamic_shared_bytes": 0}
        return run_launch(self.program, entry, dim3(grid), dim3(block), arguments=arguments, **(defaults | options))


def dim3(shape: Any) -> tuple[int, int, int]:
    full = (*((shape,) if isinstance(shape, int) else shape), 1, 1)
    return full[0], full[1], full[2]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="session")
def compile_ptx(folder: Path) -> Callable[[Path], str]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")

    def compile_file(source: Path) -> str:
        out = folder / f"{source.stem}.ptx"
        if not out.exists():
            options = ["-ptx", "-lineinfo", "-arch=sm_90", "-std=c++17", "-o", str(out), str(source)]
            done = subprocess.run([nvcc, *options], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return out.read_text()

    return compile_file


@pytest.fixture(scope="session")
def load(folder: Path, compile_ptx: Callable[[Path], str]) -> Callable[[str], Device]:
    def load_module(name: str) -> Device:
        out = folder / f"{name}.so"
        if not out.exists():
            build(compile_ptx(KERNELS / f"{name}.cu"), out, cache=folder / "cache")
        return Device(Program(out, DeviceMemory(8 << 30)))

    return load_module


@pytest.fixture
def device(load: Callable[[str], Device]) -> Device:
    return load("correct")


@pytest.fixture
def faulty(load: Callable[[str], Device]) -> Device:
    return load("faulty")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)

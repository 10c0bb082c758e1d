"""Real compilers for tests of import and export."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Compile = Callable[[str], None]


@pytest.fixture
def compile_program(tmp_path: Path) -> Compile:
    """Compile a whole program with plain nvcc; fail with its words."""
    return lambda source: _nvcc(tmp_path, source, ["-c", "-o", str(tmp_path / "program.o")])


@pytest.fixture
def compile_device_code(tmp_path: Path) -> Compile:
    """Compile device code to a cubin; fail with the compiler's words."""
    return lambda source: _nvcc(tmp_path, source, ["-cubin", "-o", str(tmp_path / "kernel.cubin")])


def _nvcc(folder: Path, source: str, options: list[str]) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("no nvcc on this machine")
    file = folder / "source_to_compile.cu"
    file.write_text(source, newline="")
    done = subprocess.run(
        [compiler, "-std=c++17", "-arch=sm_90", *options, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + "\n" + source

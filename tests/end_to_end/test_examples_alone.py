"""Each example without its problem file: all is read off the source, and what comes out compiles and applies."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import EXAMPLES, optimlctl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.skipif(not shutil.which("nvcc") or not shutil.which("patch"), reason="needs nvcc and patch on the path")
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.cu")))
def test_an_example_without_its_problem_file_is_optimized(name: str, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / f"{name}.cu", tmp_path)
    done = optimlctl(
        tmp_path, "optimize", f"{name}.cu", "--device", "cpu", "--rounds", "2", "--json", "--out", "out", seconds=280
    )
    assert done.returncode == 0, done.stderr
    best, patch = tmp_path / "out" / "best.cu", tmp_path / "out" / "best.patch"
    _run(tmp_path, "nvcc", "-arch=sm_90", "-c", str(best), "-o", "best.o")
    if patch.exists():
        _run(tmp_path, "patch", "-p1", "-i", str(patch))
    assert (tmp_path / f"{name}.cu").read_bytes() == best.read_bytes()


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

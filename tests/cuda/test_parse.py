import pytest

from optiml.cuda import parse
from optiml.cuda.importer import import_file

PROGRAM = """__global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
int main() { const int n = 64; float* x; cudaMalloc(&x, n * sizeof(float)); twice<<<1, 64>>>(x, n); }
"""


def test_launches_are_read_on_a_machine_without_a_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_ARGUMENTS", (*parse._ARGUMENTS, "--cuda-path=/nonexistent"))
    (launch,) = import_file(PROGRAM, "k.cu").kernel.launches
    assert list(launch.block) == ["64"]

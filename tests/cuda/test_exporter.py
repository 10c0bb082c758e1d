import subprocess
from pathlib import Path

import pytest

from optiml.cuda.assembly import Imported
from optiml.cuda.exporter import export, to_c
from optiml.cuda.importer import import_file
from optiml.v1 import kernel_pb2

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _example(name: str) -> tuple[Imported, kernel_pb2.Kernel]:
    path = EXAMPLES / f"{name}.cu"
    imported = import_file(path.read_text(), path.name, directory=path.parent)
    best = kernel_pb2.Kernel()
    best.CopyFrom(imported.kernel)
    return imported, best


def _compiles(source: str, folder: Path) -> None:
    (folder / "best.cu").write_text(source)
    subprocess.run(["nvcc", "-arch=sm_90", "-c", "best.cu", "-o", "best.o"], cwd=folder, check=True)


def _row_sum_with_a_warp_a_row() -> tuple[Imported, kernel_pb2.Kernel]:
    imported, best = _example("row_sum")
    best.source = best.source.replace(
        "__global__ void row_sum(", "constexpr int kRows = 4;  // rows a block\n\n__global__ void row_sum("
    ).replace("int row = threadIdx.x + blockIdx.x * blockDim.x;", "int row = blockIdx.x * kRows + threadIdx.y;")
    best.launches[0].grid[:] = ["ceil_div(rows, 4)"]
    best.launches[0].block[:] = ["1", "4"]
    return imported, best


def test_an_unchanged_kernel_gives_no_patch() -> None:
    imported, best = _example("matmul")
    exported = export(imported, best, "matmul.cu")
    assert (exported.source, exported.patch) == (imported.text, "")


def test_the_patch_applies_to_the_users_file_and_gives_the_exported_one(tmp_path: Path) -> None:
    imported, best = _row_sum_with_a_warp_a_row()
    exported = export(imported, best, "src/row_sum.cu")
    (tmp_path / "src").mkdir()
    target = tmp_path / "src" / "row_sum.cu"
    target.write_text(imported.text)
    subprocess.run(["patch", "-p1"], input=exported.patch, text=True, cwd=tmp_path, check=True)
    assert target.read_text() == exported.source


def test_a_file_without_a_last_newline_is_patched_too(tmp_path: Path) -> None:
    imported, best = _row_sum_with_a_warp_a_row()
    imported = import_file(imported.text.rstrip("\n"), "row_sum.cu")
    exported = export(imported, best, "row_sum.cu")
    (tmp_path / "row_sum.cu").write_text(imported.text)
    subprocess.run(["patch", "-p1"], input=exported.patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "row_sum.cu").read_text() == exported.source


@pytest.mark.slow
def test_the_exported_program_compiles_and_launches_in_the_hosts_terms(tmp_path: Path) -> None:
    imported, best = _row_sum_with_a_warp_a_row()
    exported = export(imported, best, "row_sum.cu")
    assert "row_sum<<<(rows + 3) / 4, dim3(1, 4)>>>(d_matrix, d_sums, rows, columns);" in exported.source
    assert exported.source.count("__global__") == 1
    assert "element(" in exported.source
    _compiles(exported.source, tmp_path)


@pytest.mark.slow
def test_scratch_is_allocated_around_the_launches(tmp_path: Path) -> None:
    imported, best = _example("row_sum")
    best.source = best.source.replace("float* sums,", "float* sums, float* partial,")
    best.scratch.add(name="partial", data_type=kernel_pb2.DATA_TYPE_F32, elements="rows * 4")
    arguments = list(best.launches[0].arguments)
    del best.launches[0].arguments[:]
    best.launches[0].arguments.extend([*arguments[:2], kernel_pb2.LaunchArgument(buffer="partial"), *arguments[2:]])
    exported = export(imported, best, "row_sum.cu")
    assert "cudaMalloc(&partial, sizeof(float) * (rows * 4));" in exported.source
    assert "cudaFree(partial);" in exported.source
    _compiles(exported.source, tmp_path)


@pytest.mark.slow
def test_more_than_48_kib_of_shared_memory_are_opted_into(tmp_path: Path) -> None:
    imported, best = _example("relu")
    best.launches[0].dynamic_shared_memory_bytes = "65536"
    exported = export(imported, best, "relu.cu")
    assert "cudaFuncSetAttribute(relu, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);" in exported.source
    _compiles(exported.source, tmp_path)


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("N", "n_host"),
        ("ceil_div(N, 16)", "(n_host + 15) / 16"),
        ("ceil_div(N * 2, K)", "((n_host * 2) + K - 1) / K"),
        ("min(N, 4) + 1", "(n_host < 4 ? n_host : 4) + 1"),
        ("(N - 1) / 2", "(n_host - 1) / 2"),
        ("-N", "-n_host"),
    ],
)
def test_expressions_are_written_in_c(text: str, c: str) -> None:
    assert to_c(text, {"N": "n_host"}) == c

"""What is proposed for naive kernels, and what is declined."""

import re
import shutil
import subprocess
from pathlib import Path

import kernels
import pytest

from optiml.cuda.parse import parse_cuda
from optiml.errors import InvalidArgumentError
from optiml.v1 import generator_service_pb2 as generator
from optiml.v1 import kernel_pb2, search_pb2, verdict_pb2
from services.generator.registry import TRANSFORMATIONS, propose

ALL = {name: value for name, value in vars(kernels).items() if isinstance(value, kernel_pb2.Kernel) and name.isupper()}


def proposed(kernel: kernel_pb2.Kernel, **fields: object) -> generator.ProposeResponse:
    return propose(generator.ProposeRequest(kernel=kernel, **fields))


def names(kernel: kernel_pb2.Kernel) -> set[str]:
    return {edit.transformation for edit in proposed(kernel).edits}


def reason(kernel: kernel_pb2.Kernel, transformation: str) -> str:
    found = {declined.transformation: declined.reason for declined in proposed(kernel).declined}
    return found[transformation]


@pytest.mark.parametrize(
    ("name", "transformation"),
    [
        ("SOFTMAX", "warp_reduce_rows"),
        ("LAYER_NORM", "warp_reduce_rows"),
        ("CROSS_ENTROPY", "warp_reduce_rows"),
        ("ROW_SUM", "warp_reduce_rows"),
        ("TEMPLATE_ROWS", "warp_reduce_rows"),
        ("MATMUL", "tile_shared_memory"),
        ("GEMM_SWAPPED", "tile_shared_memory"),
        ("GEMM_LINEAR", "tile_shared_memory"),
        ("BATCHED", "tile_shared_memory"),
        ("GEMM_SWAPPED", "coalesce"),
        ("COLUMN_MAJOR_STENCIL", "coalesce"),
        ("TRANSPOSE", "tile_transpose"),
        ("RELU", "vectorize"),
        ("AXPY", "vectorize"),
        ("ATTENTION", "cache_in_registers"),
        ("ATTENTION", "stage_shared"),
        ("MAXPOOL3D", "block_shape"),
        ("MAXPOOL3D", "qualify_pointers"),
        ("MAXPOOL3D", "unroll"),
    ],
)
def test_transformation_is_found_by_structure(name: str, transformation: str) -> None:
    assert transformation in names(ALL[name])


@pytest.mark.parametrize(
    ("name", "transformation", "wanted"),
    [
        ("ONLINE_SOFTMAX", "warp_reduce_rows", "carried from one step"),
        ("COLUMN_SUM", "warp_reduce_rows", "not contiguous"),
        ("NO_GUARD_MATMUL", "tile_shared_memory", "no bounds check"),
        ("TRIANGULAR", "tile_shared_memory", "length of the sum differs"),
        ("SOFTMAX", "tile_shared_memory", "not split into a row and a column"),
        ("COLUMN_MAJOR_STENCIL", "tile_transpose", "same axis"),
        ("MATMUL", "coalesce", "neighbouring threads differ in `col`"),
        ("SHIFTED", "vectorize", "is not the element"),
        ("SHIFTED_IN_PLACE", "qualify_pointers", "one buffer twice"),
        ("RELU", "unroll", "no innermost loop"),
        ("SHARED_ALREADY", "block_shape", "work together"),
        ("MATMUL", "cache_in_registers", "constant length"),
        ("MATMUL", "stage_shared", "2 coordinates"),
    ],
)
def test_transformation_declines_with_the_reason(name: str, transformation: str, wanted: str) -> None:
    assert wanted in reason(ALL[name], transformation)


def test_every_transformation_answers_with_edits_or_a_reason() -> None:
    response = proposed(kernels.MATMUL)
    told = {edit.transformation for edit in response.edits} | {found.transformation for found in response.declined}
    assert told == set(TRANSFORMATIONS)


def renamed(kernel: kernel_pb2.Kernel) -> kernel_pb2.Kernel:
    """Give every identifier of the kernel's functions that is declared in the file another name."""
    parsed = parse_cuda(kernel.source)
    from optiml.cuda.parse import walk

    declared = {
        cursor.spelling
        for cursor in walk(parsed.unit.cursor)
        if cursor.kind.name in {"PARM_DECL", "VAR_DECL", "FUNCTION_DECL"} and cursor.spelling
    }
    result = kernel_pb2.Kernel()
    result.CopyFrom(kernel)
    result.source = re.sub(
        r"(?<![.\w])[A-Za-z_]\w*", lambda match: f"zz_{match[0]}" if match[0] in declared else match[0], kernel.source
    )
    for launch in result.launches:
        launch.kernel = f"zz_{launch.kernel}"
    return result


@pytest.mark.parametrize("name", sorted(set(ALL) - {"TEMPLATE_ROWS"}))
def test_names_of_identifiers_do_not_matter(name: str) -> None:
    def told(kernel: kernel_pb2.Kernel) -> list[tuple[str, list[str], list[str]]]:
        return sorted(
            (edit.transformation, list(edit.kernel.launches[0].grid), list(edit.kernel.launches[0].block))
            for edit in proposed(kernel).edits
        )

    assert told(renamed(ALL[name])) == told(ALL[name])


def test_proposals_are_the_same_each_time() -> None:
    assert proposed(kernels.SOFTMAX) == proposed(kernels.SOFTMAX)


def test_edits_aimed_at_the_bottleneck_come_first() -> None:
    diagnosis = search_pb2.Diagnosis(bottleneck=verdict_pb2.BOTTLENECK_LOW_PARALLELISM)
    edits = proposed(kernels.GEMM_LINEAR, diagnosis=diagnosis).edits
    order = {edit.transformation: edit.prior for edit in edits}
    plain = {edit.transformation: edit.prior for edit in proposed(kernels.GEMM_LINEAR).edits}
    assert order["unroll"] < plain["unroll"]
    assert order["block_shape"] == plain["block_shape"]


def test_limit_is_kept() -> None:
    assert len(proposed(kernels.MATMUL, limit=3).edits) == 3


def test_block_shape_is_not_proposed_twice() -> None:
    found = proposed(kernels.RELU, history=["block_shape"])
    assert "block_shape" not in {edit.transformation for edit in found.edits}


def test_edits_compose() -> None:
    kernel = kernels.ATTENTION
    for transformation in ("cache_in_registers", "stage_shared", "qualify_pointers"):
        kernel = next(edit for edit in proposed(kernel).edits if edit.transformation == transformation).kernel
    assert "__restrict__" in kernel.source
    assert kernel.source.count("__shared__") == 2


def test_source_that_is_not_understood_is_an_argument_error() -> None:
    broken = kernels.kernel("__global__ void k(float* x) { x[0] = ; }", "k", "1", "1", "x")
    with pytest.raises(InvalidArgumentError, match="line 1"):
        proposed(broken)


def test_launch_of_a_missing_function_is_an_argument_error() -> None:
    with pytest.raises(InvalidArgumentError, match="no function `missing`"):
        proposed(kernels.kernel("__global__ void k(float* x) { x[0] = 1; }", "missing", "1", "1", "x"))


def test_wrong_number_of_arguments_is_an_argument_error() -> None:
    with pytest.raises(InvalidArgumentError, match="2 arguments for the 1 parameters"):
        proposed(kernels.kernel("__global__ void k(float* x) { x[0] = 1; }", "k", "1", "1", "x;y"))


def test_deeply_nested_source_does_not_break_the_generator() -> None:
    deep = "(" * 3000 + "1" + ")" * 3000
    kernel = kernels.kernel(f"__global__ void k(float* x) {{ x[0] = {deep}; }}", "k", "1", "1", "x")
    with pytest.raises(InvalidArgumentError):
        proposed(kernel)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(ALL))
def test_every_candidate_compiles(name: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc: pip install optiml[nvcc]")
    # one compilation for all candidates: each in a namespace of its own
    edits = [edit for edit in proposed(ALL[name]).edits if 'extern "C"' not in edit.kernel.source]
    if not edits:
        edits = list(proposed(ALL[name]).edits)
    text = ["#include <cuda_runtime.h>", "#include <math_constants.h>"]
    for number, edit in enumerate(edits):
        source = re.sub(r"#include[^\n]*", "", edit.kernel.source)
        source = source.replace('extern "C"', "")
        macros = re.findall(r"#\s*define\s+(\w+)", source)
        text += [f"namespace candidate_{number} {{", source, "}", *(f"#undef {macro}" for macro in macros)]
    file = tmp_path / "candidates.cu"
    file.write_text("\n".join(text))
    done = subprocess.run(
        [nvcc, "-cubin", "-arch=sm_90", "-std=c++17", "-Xcicc", "-O0", "-Xptxas", "-O0", "-o", "out.cubin", str(file)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

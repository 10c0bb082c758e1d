"""The NumPy references of the examples against their kernels, run thread by thread as plain C++."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from optiml import data_types
from optiml.cuda.importer import import_file
from optiml.cuda.submission import Submission, submission
from optiml.expressions import evaluate, evaluate_integer
from optiml.problem import parameters_of
from optiml.problem_file import load_problem
from optiml.v1 import kernel_pb2, problem_pb2

from .conftest import EXAMPLES

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.cu"))
DTYPES = {"f32": np.float32, "i32": np.int32}
SHIM = """\
#include <cfloat>
#include <cmath>
#include <cstddef>
#define __global__
#define __device__
#define __restrict__
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
"""
LOOPS = """
extern "C" void run(const unsigned* g, const unsigned* b, void** a) {{
  gridDim = {{g[0], g[1], g[2]}};
  blockDim = {{b[0], b[1], b[2]}};
  for (blockIdx.z = 0; blockIdx.z < g[2]; blockIdx.z++)
  for (blockIdx.y = 0; blockIdx.y < g[1]; blockIdx.y++)
  for (blockIdx.x = 0; blockIdx.x < g[0]; blockIdx.x++)
  for (threadIdx.z = 0; threadIdx.z < b[2]; threadIdx.z++)
  for (threadIdx.y = 0; threadIdx.y < b[1]; threadIdx.y++)
  for (threadIdx.x = 0; threadIdx.x < b[0]; threadIdx.x++)
    {call};
}}
"""


def _handed_in(name: str) -> Submission:
    source, problem = EXAMPLES / f"{name}.cu", EXAMPLES / f"{name}.yaml"
    imported = import_file(source.read_text(), source.name, directory=EXAMPLES)
    return submission(imported, load_problem(problem.read_text(), problem.name))


def _inputs(problem: problem_pb2.Problem, values: dict[str, int]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    arrays: dict[str, np.ndarray] = {}
    for argument in problem.arguments:
        dtype = DTYPES[data_types.SHORT_NAMES[argument.data_type]]
        shape = [evaluate_integer(extent, values) for extent in argument.shape]
        draw = argument.draw
        if draw.HasField("uniform"):
            arrays[argument.name] = generator.uniform(draw.uniform.low, draw.uniform.high, shape).astype(dtype)
        elif draw.HasField("integers"):
            high = evaluate_integer(draw.integers.high, values)
            arrays[argument.name] = generator.integers(0, high, shape).astype(dtype)
        else:
            arrays[argument.name] = np.full(shape, np.nan, dtype)
    return arrays


def _compiled(folder: Path, kernel: kernel_pb2.Kernel) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    (launch,) = kernel.launches
    arguments = []
    for index, argument in enumerate(launch.arguments):
        is_buffer = argument.WhichOneof("value") == "buffer"
        type_name = "" if is_buffer else data_types.CPP_NAMES[argument.scalar.data_type]
        arguments.append(f"P{{a[{index}]}}" if is_buffer else f"*({type_name}*)a[{index}]")
    pointer = "struct P { void* p; template <class T> operator T*() const { return (T*)p; } };\n"
    call = f"{launch.kernel}({', '.join(arguments)})"
    file = folder / "kernel.cpp"
    file.write_text(SHIM + pointer + kernel.source + LOOPS.format(call=call))
    library = folder / "kernel.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, file], check=True)
    return ctypes.CDLL(str(library))


def _run(
    library: ctypes.CDLL, kernel: kernel_pb2.Kernel, arrays: dict[str, np.ndarray], values: dict[str, int]
) -> None:
    (launch,) = kernel.launches
    scalars = {name: array.item() for name, array in arrays.items() if array.ndim == 0}
    kept: list[np.ndarray] = []
    for argument in launch.arguments:
        if argument.WhichOneof("value") == "buffer":
            kept.append(arrays[argument.buffer])
        else:
            value = evaluate(argument.scalar.expression, values | scalars)
            dtype = np.float32 if data_types.is_float(argument.scalar.data_type) else np.int32
            kept.append(np.array([value], dtype))
    dimensions = [
        (ctypes.c_uint * 3)(*([evaluate_integer(e, values) for e in extents] + [1, 1])[:3])
        for extents in (launch.grid, launch.block)
    ]
    pointers = (ctypes.c_void_p * len(kept))(*(array.ctypes.data for array in kept))
    library.run(*dimensions, pointers)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_what_the_kernel_computes(name: str, tmp_path: Path) -> None:
    handed_in = _handed_in(name)
    library = _compiled(tmp_path, handed_in.kernel)
    for size in handed_in.problem.smoke:
        values = parameters_of(size)
        arrays = _inputs(handed_in.problem, values)
        scope: dict[str, object] = {"np": np} | values
        for key, array in arrays.items():
            floating = np.issubdtype(array.dtype, np.floating)
            scope[key] = array.astype(np.float64) if floating and array.ndim else array if array.ndim else array.item()
        exec(handed_in.problem.reference.numpy, scope)
        _run(library, handed_in.kernel, arrays, values)
        for argument in handed_in.problem.arguments:
            if argument.role == problem_pb2.ROLE_OUT:
                expected = np.asarray(scope[argument.name])
                assert expected.shape == arrays[argument.name].shape
                np.testing.assert_allclose(arrays[argument.name], expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_smoke_sizes_are_no_multiple_of_a_block(name: str) -> None:
    problem = _handed_in(name).problem
    assert len(problem.smoke) >= 2
    for size in problem.smoke:
        assert all(value % 8 for value in size.parameters.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_problem_file_agrees_with_the_program(name: str) -> None:
    assert _handed_in(name).notes == []
    imported = import_file((EXAMPLES / f"{name}.cu").read_text(), "a.cu")
    assert _handed_in(name).problem.time == imported.problem.time

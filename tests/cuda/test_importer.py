from pathlib import Path

import pytest

from optiml.cuda.drafting import draft_problem_file, join, require_complete
from optiml.cuda.importer import import_file
from optiml.errors import InvalidArgumentError
from optiml.problem_file import load_problem
from optiml.v1 import kernel_pb2, problem_pb2

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.cu"))
KERNEL = "__global__ void scale(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n"
HOST = """int main() {
  const int n = 1024;
  float *dx, *dy;
  cudaMalloc(&dx, n * sizeof(float));
  cudaMalloc(&dy, n * sizeof(float));
  scale<<<1, 1024>>>(dx, dy, n);
}
"""


def _imported(text: str, kernel: str | None = None, directory: Path | None = None):  # noqa: ANN202
    return import_file(text, "k.cu", kernel, directory)


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_inferred_completely(name: str) -> None:
    path = EXAMPLES / f"{name}.cu"
    imported = import_file(path.read_text(), str(path), directory=path.parent)
    require_complete(imported)


@pytest.mark.parametrize("name", NAMES)
def test_each_example_fits_its_problem_file(name: str) -> None:
    path = EXAMPLES / f"{name}.cu"
    imported = import_file(path.read_text(), str(path), directory=path.parent)
    problem, kernel = join(imported, load_problem((EXAMPLES / f"{name}.yaml").read_text()), f"{name}.yaml")
    assert problem.reference.numpy
    assert kernel.launches


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_reads_back_as_what_was_inferred(name: str) -> None:
    path = EXAMPLES / f"{name}.cu"
    imported = import_file(path.read_text(), str(path), directory=path.parent)
    file = load_problem(draft_problem_file(imported))
    expected = problem_pb2.Problem()
    expected.CopyFrom(imported.problem)
    expected.ClearField("reference")
    assert file.problem == expected
    assert file.launches == list(imported.kernel.launches)


def test_an_index_buffer_is_drawn_within_what_it_indexes() -> None:
    path = EXAMPLES / "cross_entropy.cu"
    problem = import_file(path.read_text(), str(path)).problem
    labels = next(argument for argument in problem.arguments if argument.name == "labels")
    assert (labels.draw.integers.low, labels.draw.integers.high) == ("0", "classes")


def test_a_rounding_up_division_is_written_as_one() -> None:
    path = EXAMPLES / "matmul.cu"
    (launch,) = import_file(path.read_text(), str(path)).kernel.launches
    assert list(launch.grid) == ["ceil_div(N, 16)", "ceil_div(M, 16)"]


def test_a_constant_that_only_shapes_the_block_is_no_parameter() -> None:
    path = EXAMPLES / "layer_norm.cu"
    imported = import_file(path.read_text(), str(path))
    assert [parameter.name for parameter in imported.problem.parameters] == ["rows", "cols"]
    assert list(imported.kernel.launches[0].block) == ["128"]


def test_a_float_scalar_is_drawn_around_its_value() -> None:
    host = HOST.replace("scale<<<1, 1024>>>(dx, dy, n)", "scale<<<1, 1024>>>(dx, dy, n, 0.5f)")
    imported = _imported(KERNEL.replace("int n)", "int n, float alpha)") + host)
    alpha = next(argument for argument in imported.problem.arguments if argument.name == "alpha")
    assert alpha.role == problem_pb2.ROLE_SCALAR
    assert (alpha.draw.uniform.low, alpha.draw.uniform.high) == (0.25, 0.75)


def test_an_accumulated_buffer_is_inout() -> None:
    imported = _imported(KERNEL.replace("y[i] = 2 * x[i]", "y[i] += 2 * x[i]") + HOST)
    roles = {argument.name: argument.role for argument in imported.problem.arguments}
    assert roles == {"x": problem_pb2.ROLE_IN, "y": problem_pb2.ROLE_INOUT}


def test_a_buffer_between_two_launches_is_scratch() -> None:
    text = (
        "__global__ void first(const float* x, float* t, int n) { t[threadIdx.x] = x[threadIdx.x]; }\n"
        "__global__ void second(const float* t, float* y, int n) { y[threadIdx.x] = t[threadIdx.x]; }\n"
        "int main() { int n = 64; float *x, *t, *y;\n"
        "  cudaMalloc(&x, n * 4); cudaMalloc(&t, n * 4); cudaMalloc(&y, n * 4);\n"
        "  first<<<1, 64>>>(x, t, n); second<<<1, 64>>>(t, y, n);\n"
        "  float h[64]; cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); }\n"
    )
    imported = _imported(text)
    assert [scratch.name for scratch in imported.kernel.scratch] == ["t"]
    assert [launch.kernel for launch in imported.kernel.launches] == ["first", "second"]


def test_host_code_stays_out_of_the_kernel() -> None:
    imported = _imported("#include <cstdio>\n#include <vector>\n" + KERNEL + HOST)
    assert imported.kernel.source.strip() == KERNEL.strip()


def test_a_header_beside_the_file_comes_in(tmp_path: Path) -> None:
    (tmp_path / "twice.h").write_text("#pragma once\n__device__ float twice(float x) { return 2 * x; }\n")
    text = '#include "twice.h"\n' + KERNEL.replace("2 * x[i]", "twice(x[i])") + HOST
    assert "float twice(float x)" in _imported(text, directory=tmp_path).kernel.source


def test_offsets_count_bytes_not_characters() -> None:
    imported = _imported("// größer als früher — é\n" + KERNEL + HOST)
    assert imported.kernel.source.rstrip().endswith("y[i] = 2 * x[i]; }")
    assert list(imported.kernel.launches[0].grid) == ["1"]


def test_windows_line_ends_are_no_obstacle() -> None:
    require_complete(_imported((KERNEL + HOST).replace("\n", "\r\n")))


def test_a_line_of_the_kernel_leads_back_to_the_line_of_the_file() -> None:
    imported = _imported("#include <cstdio>\n\n\n" + KERNEL + HOST)
    assert imported.file_line(1) == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("int main() { return 0; }\n", "no kernel in it"),
        ("def f(x):\n    return x\n", "is not CUDA"),
        ("\0\1\2", "is not text"),
        ("__global__ void f(float* x) { x[0] = ; }", r"k\.cu"),
        (KERNEL + KERNEL.replace("scale", "other"), "name one with --kernel: other, scale"),
        ('#include "gone.h"\n' + KERNEL + HOST, r"k\.cu:1: header 'gone.h' is not there"),
    ],
    ids=["empty", "no-kernel", "python", "binary", "syntax", "two-kernels", "missing-header"],
)
def test_bad_input_is_one_clear_error(text: str, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=complaint) as caught:
        require_complete(_imported(text))
    assert "\n" not in str(caught.value)


def test_two_programs_in_one_file_need_a_choice() -> None:
    text = (
        KERNEL + KERNEL.replace("scale", "other")
        + "int main() { int n = 64; float *a, *b, *c, *d; cudaMalloc(&a, 4 * n); cudaMalloc(&b, 4 * n);\n"
        "cudaMalloc(&c, 4 * n); cudaMalloc(&d, 4 * n); scale<<<1, 64>>>(a, b, n); other<<<1, 64>>>(c, d, n); }\n"
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=r"scale \(line 4\), other \(line 4\); name one"):
        _imported(text)
    assert _imported(text, "other").kernel.launches[0].kernel == "other"


def test_an_unknown_kernel_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no kernel 'skale' in it \(there are: scale\)"):
        _imported(KERNEL + HOST, "skale")


def test_what_cannot_be_inferred_is_named_with_its_line() -> None:
    text = KERNEL + HOST.replace("n * sizeof(float));\n  cudaMalloc(&dy", "read_size());\n  cudaMalloc(&dy")
    text = "size_t read_size();\n" + text
    with pytest.raises(InvalidArgumentError, match=r"k\.cu:6: arguments\.x\.shape: .*read_size"):
        require_complete(_imported(text))


def test_a_template_launch_keeps_its_arguments() -> None:
    path = EXAMPLES / "layer_norm.cu"
    imported = import_file(path.read_text(), str(path))
    assert imported.kernel.launches[0].kernel == "layer_norm<float>"
    assert imported.problem.arguments[0].data_type == kernel_pb2.DATA_TYPE_F32

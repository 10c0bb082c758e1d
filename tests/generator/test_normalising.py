"""The plain form shows every index and computes the same."""

import pytest

from optiml.v1 import kernel_pb2
from services.generator.rewriting.normalising import plainer


def _kernel(source: str, name: str = "f") -> kernel_pb2.Kernel:
    return kernel_pb2.Kernel(source=source, launches=[kernel_pb2.Launch(kernel=name, grid=["1"], block=["32"])])


def test_a_template_becomes_the_function_that_is_launched() -> None:
    source = "template <typename T, int N>\n__global__ void f(T* x) { x[threadIdx.x * N] = T(1); }\n"
    found = plainer(_kernel(source, "f<float, 4>"))
    assert found.source == "__global__ void f(float* x) { x[threadIdx.x * 4] = float(1); }\n"
    assert found.launches[0].kernel == "f"


def test_a_template_that_is_launched_in_two_ways_stays() -> None:
    kernel = _kernel("template <typename T>\n__global__ void f(T* x) { x[threadIdx.x] = 1; }\n", "f<float>")
    kernel.launches.add(kernel="f<int>", grid=["1"], block=["32"])
    assert plainer(kernel) is kernel


def test_a_type_that_cannot_be_written_in_place_of_the_parameter_leaves_the_template() -> None:
    kernel = _kernel("template <typename T>\n__global__ void f(T* x) { x[0] = T(1); }\n", "f<unsigned int>")
    assert plainer(kernel) is kernel


def test_an_index_macro_is_expanded_without_needless_parentheses() -> None:
    source = "#define AT(i, j) ((i) * w + (j))\n__global__ void f(float* x, int w) { x[AT(threadIdx.x, w - 1)] = 0; }\n"
    assert "x[threadIdx.x * w + (w - 1)] = 0" in plainer(_kernel(source)).source


def test_a_macro_that_is_redefined_stays() -> None:
    source = "#define A(i) (i)\n#undef A\n#define A(i) (i + 1)\n__global__ void f(float* x) { x[A(0)] = 0; }\n"
    kernel = _kernel(source)
    assert plainer(kernel) is kernel


def test_macros_in_macros_are_expanded() -> None:
    source = "#define B(i) (2 * (i))\n#define A(i) (B(i) + 1)\n__global__ void f(float* x, int n) { x[A(n)] = 0; }\n"
    assert "x[(2 * n) + 1] = 0" in plainer(_kernel(source)).source


def test_a_function_that_reads_an_element_is_put_in_place() -> None:
    source = (
        "__device__ float at(const float* m, int r, int c, int w) { return m[r * w + c]; }\n"
        "__global__ void f(const float* x, float* y, int n) { y[0] = at(x, n + 1, 2, n); }\n"
    )
    assert "y[0] = x[(n + 1) * n + 2];" in plainer(_kernel(source)).source


def test_a_conversion_of_an_argument_stays_a_conversion() -> None:
    source = (
        "__device__ float at(const float* m, int i) { return m[i]; }\n"
        "__global__ void f(const float* x, float* y, float n) { y[0] = at(x, n); }\n"
    )
    assert "y[0] = x[((int)n)];" in plainer(_kernel(source)).source


@pytest.mark.parametrize(
    "function",
    [
        "__device__ float at(float* m, int i) { return m[i] = 1.0f; }",
        "__device__ float at(float* m, int i) { m[i] += 1.0f; return m[i]; }",
        "__device__ float at(float* m, int i) { return atomicAdd(&m[i], 1.0f); }",
        "template <typename T> __device__ T at(T* m, int i) { return m[i]; }",
        "__device__ float at(float* m, int i) { return i > 0 ? at(m, i - 1) : m[0]; }",
    ],
    ids=["assigns", "several statements", "atomic", "template", "recursive"],
)
def test_a_function_that_does_more_than_return_an_element_stays(function: str) -> None:
    kernel = _kernel(f"{function}\n__global__ void f(float* x, float* y, int n) {{ y[0] = at(x, n); }}\n")
    assert plainer(kernel) is kernel


def test_an_argument_with_a_side_effect_stays_in_the_call() -> None:
    source = (
        "__device__ float at(const float* m, int i) { return m[i] + m[i + 1]; }\n"
        "__global__ void f(const float* x, float* y, int n) { y[0] = at(x, n++); }\n"
    )
    kernel = _kernel(source)
    assert plainer(kernel) is kernel


def test_a_name_that_the_kernel_uses_otherwise_is_not_captured() -> None:
    source = (
        "constexpr int w = 7;\n"
        "__device__ float at(const float* m, int i) { return m[i * w]; }\n"
        "__global__ void f(const float* x, float* y, int w) { y[0] = at(x, w); }\n"
    )
    kernel = _kernel(source)
    assert plainer(kernel) is kernel


def test_a_kernel_that_shows_its_indices_is_left_alone() -> None:
    kernel = _kernel("__global__ void f(float* x) { x[threadIdx.x] = 0.0f; }\n")
    assert plainer(kernel) is kernel


def test_a_macro_without_parentheses_keeps_its_meaning() -> None:
    source = "#define SQUARE(v) v * v\n__global__ void f(float* x) { x[0] = SQUARE(x[0] + 1); }\n"
    assert "x[0] = x[0] + 1 * x[0] + 1;" in plainer(_kernel(source)).source


def test_the_overload_that_is_called_is_put_in_place() -> None:
    source = (
        "__device__ float at(const float* m, int i) { return m[i] / 2; }\n"
        "__device__ double at(const double* m, int i) { return m[i]; }\n"
        "__global__ void f(const double* x, double* y, int n) { y[0] = at(x, n); }\n"
    )
    assert "y[0] = x[n];" in plainer(_kernel(source)).source


def test_macros_that_double_each_other_are_not_written_out() -> None:
    macros = "#define M0(x) x\n" + "".join(f"#define M{n}(x) (M{n - 1}(x) + M{n - 1}(x))\n" for n in range(1, 12))
    source = f"{macros}__global__ void f(float* y) {{ y[0] = M11(y[1]); }}\n"
    assert len(plainer(_kernel(source)).source) < 4 * len(source) + 4096

"""What is read off a `.cu` file: launches, sizes, roles, parameters."""

from pathlib import Path

import pytest

from optiml import data_types
from optiml.cuda.importer import Imported, import_file
from optiml.cuda.submission import submission
from optiml.v1 import kernel_pb2, problem_pb2

from .conftest import EXAMPLES

ADD = "__global__ void add(const float* a, float* c, int n) { int i = threadIdx.x; if (i < n) c[i] = a[i]; }\n"


def _program(body: str, kernel: str = ADD, head: str = "") -> Imported:
    return import_file(
        f"#include <cstdlib>\n#include <vector>\n{head}{kernel}int main(int argc, char** argv) {{\n{body}\n}}", "a.cu"
    )


def _buffers(count: str) -> str:
    return f"float *a, *c; cudaMalloc(&a, {count} * sizeof(float)); cudaMalloc(&c, {count} * sizeof(float));"


def _argument(imported: Imported, name: str) -> problem_pb2.Argument:
    return next(argument for argument in imported.problem.arguments if argument.name == name)


def _scalars(launch: kernel_pb2.Launch) -> list[str]:
    return [a.scalar.expression for a in launch.arguments if a.WhichOneof("value") == "scalar"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.cu")), ids=lambda path: path.stem)
def test_every_example_is_read_without_a_problem_file(path: Path) -> None:
    imported = import_file(path.read_text(), path.name, directory=path.parent)
    assert imported.missing == []
    handed_in = submission(imported)
    assert handed_in.problem.id
    assert handed_in.problem.reference.WhichOneof("source") == "kernel"


@pytest.mark.parametrize(
    "grid",
    [
        "(n + 255) / 256", "(n + 256 - 1) / 256", "(n - 1) / 256 + 1", "n / 256 + (n % 256 != 0)",
        "n / 256 + (n % 256 ? 1 : 0)", "n % 256 == 0 ? n / 256 : n / 256 + 1", "(int)ceil(n / 256.0)",
        "ceil((float)n / 256)", "(n + 255) >> 8", "div_up(n, 256)", "dim3((n + 255) / 256)", "(255 + n) / 256",
        "dim3((n + 255) / 256, 1, 1)", "(256 + n - 1) / 256",
    ],
)  # fmt: skip
def test_rounding_up_is_recognised(grid: str) -> None:
    head = "#include <cmath>\nint div_up(int a, int b) { return (a + b - 1) / b; }\n"
    imported = _program(f"int n = 1000; {_buffers('n')} add<<<{grid}, 256>>>(a, c, n);", head=head)
    assert imported.missing == []
    assert list(imported.kernel.launches[0].grid) == ["ceil_div(n, 256)"]


@pytest.mark.parametrize(
    "declaration",
    [
        "int n = 1 << 20;", "const int n = 1048576;", "constexpr size_t n = 1024 * 1024;", "int n; n = 1 << 20;",
        "int n = argc > 1 ? atoi(argv[1]) : 1 << 20;", "int n = 1 << 20; if (argc > 1) n = atoi(argv[1]);",
        "unsigned long long n = 1'048'576ull;", "auto n = 0x100000;", "int n = (1024) * (1 << 10);",
    ],
)  # fmt: skip
def test_a_constant_of_the_host_is_a_parameter(declaration: str) -> None:
    imported = _program(f"{declaration} {_buffers('n')} add<<<(n + 255) / 256, 256>>>(a, c, n);")
    assert [parameter.name for parameter in imported.problem.parameters] == ["n"]
    assert imported.problem.time[0].parameters == {"n": 1 << 20}


def test_a_macro_of_the_host_is_a_parameter_even_inside_a_checking_macro() -> None:
    head = "#define N 1024\n#define M (1 << 4)\n#define ALL (N * M)\n#define CHECK(x) do { x; } while (0)\n"
    body = "float *a, *c; CHECK(cudaMalloc(&a, N * M * sizeof(float))); CHECK(cudaMalloc(&c, ALL * sizeof(float)));"
    imported = _program(f"{body} add<<<(ALL + 31) / 32, 32>>>(a, c, ALL);", head=head)
    assert imported.problem.time[0].parameters == {"N": 1024, "M": 16}
    assert list(_argument(imported, "a").shape) == ["N", "M"]
    assert list(imported.kernel.launches[0].grid) == ["ceil_div(N * M, 32)"]


def test_a_constant_that_the_kernel_uses_is_fixed() -> None:
    kernel = ADD.replace("i < n", "i < N")
    imported = _program(f"{_buffers('N')} add<<<(N + 255) / 256, 256>>>(a, c, N);", kernel, "#define N 1000\n")
    assert list(imported.problem.parameters) == []
    assert list(imported.kernel.launches[0].grid) == ["4"]


def test_a_number_that_no_size_depends_on_is_fixed() -> None:
    imported = _program(f"int n = 1000, mode = 7; {_buffers('n')} add<<<n, 1>>>(a, c, mode);")
    assert [parameter.name for parameter in imported.problem.parameters] == ["n"]
    assert _scalars(imported.kernel.launches[0]) == ["7"]


def test_fields_of_a_struct_are_parameters() -> None:
    body = "Size s{1920, 1080}; float *a, *c; cudaMalloc(&a, s.w * s.h * 4); cudaMalloc(&c, s.w * s.h * sizeof(float));"
    imported = _program(f"{body} add<<<s.w, s.h>>>(a, c, s.w);", head="struct Size { int w, h; };\n")
    assert imported.problem.time[0].parameters == {"w": 1920, "h": 1080}


def test_a_dim3_that_is_filled_later_is_followed() -> None:
    body = "dim3 block, grid; block.x = 32; block.y = 8; grid.x = (n + 31) / block.x; grid.y = 2;"
    launch = _program(f"int n = 1000; {_buffers('n')} {body} add<<<grid, block>>>(a, c, n);").kernel.launches[0]
    assert (list(launch.grid), list(launch.block)) == (["ceil_div(n, 32)", "2"], ["32", "8"])


def test_a_value_that_changes_is_missing_not_guessed() -> None:
    body = "int blocks = 1; for (int i = 0; i < 3; i++) blocks *= 2;"
    imported = _program(f"int n = 1000; {_buffers('n')} {body} add<<<blocks, 256>>>(a, c, n);")
    assert [(m.field, m.line) for m in imported.missing] == [("launch", 5)]
    assert "'blocks' changes" in imported.missing[0].why


def test_a_value_that_depends_on_itself_is_missing() -> None:
    imported = _program(f"int n = 1000; int m = m + 1; {_buffers('n')} add<<<m, 256>>>(a, c, n);")
    assert imported.missing


def test_a_size_that_comes_from_a_call_is_asked_for_with_its_line() -> None:
    imported = _program(f"int n = rand();\n{_buffers('n')} add<<<n, 256>>>(a, c, n);")
    assert [(m.field, m.line) for m in imported.missing] == [("sizes.time[0].n", 5)]


def test_a_wrapper_function_is_followed_to_its_call() -> None:
    head = ADD + "void run(const float* x, float* y, int count) { add<<<(count + 63) / 64, 64>>>(x, y, count); }\n"
    imported = _program(f"int n = 1000; {_buffers('n')} run(a, c, n);", head)
    assert imported.missing == []
    assert list(imported.kernel.launches[0].grid) == ["ceil_div(n, 64)"]
    assert imported.host_names == {"a": "a", "c": "c"}


def test_equal_launches_count_once() -> None:
    launch = "add<<<(n + 255) / 256, 256>>>(a, c, n);"
    imported = _program(f"int n = 1000; {_buffers('n')} {launch} for (int i = 0; i < 100; i++) {{ {launch} }}")
    assert len(imported.kernel.launches) == 1


def test_launches_of_the_runtime_are_read() -> None:
    body = "void* args[] = {&a, &c, &n}; dim3 g((n + 63) / 64);"
    body += "cudaLaunchCooperativeKernel((void*)add, g, dim3(64), args, 128, 0);"
    launch = _program(f"int n = 1000; {_buffers('n')} {body}").kernel.launches[0]
    assert launch.cooperative
    assert (list(launch.grid), list(launch.block)) == (["ceil_div(n, 64)"], ["64"])
    assert launch.dynamic_shared_memory_bytes == "128"
    assert [a.buffer for a in launch.arguments if a.buffer] == ["a", "c"]


def test_shared_memory_and_streams_are_told_apart() -> None:
    body = "cudaStream_t s; add<<<n, 256, 256 * sizeof(float), s>>>(a, c, n);"
    imported = _program(f"int n = 1000; {_buffers('n')} {body}")
    assert imported.kernel.launches[0].dynamic_shared_memory_bytes == "1024"
    assert imported.launches[0].stream == "s"


def test_an_unguarded_division_needs_a_multiple() -> None:
    imported = _program(f"int n = 1024; {_buffers('n')} add<<<n / 256, 256>>>(a, c, n);")
    assert imported.problem.parameters[0].multiple_of == 256
    for size in (*imported.problem.smoke, *imported.problem.check, *imported.problem.time):
        assert size.parameters["n"] % 256 == 0


def test_smoke_sizes_are_odd_and_differ() -> None:
    imported = import_file((EXAMPLES / "matmul.cu").read_text(), "matmul.cu")
    for size in imported.problem.smoke:
        values = list(size.parameters.values())
        assert len(set(values)) == 3
        assert all(value % 2 for value in values)


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("c[0] = 1;", problem_pb2.ROLE_OUT), ("c[0] += 1;", problem_pb2.ROLE_INOUT),
        ("c[0]++;", problem_pb2.ROLE_INOUT), ("float v = c[0];", problem_pb2.ROLE_IN),
        ("*(c + 1) = 2;", problem_pb2.ROLE_OUT),
        ("atomicAdd(&c[0], 1.0f);", problem_pb2.ROLE_INOUT), ("atomicAdd(c + n, 1.0f);", problem_pb2.ROLE_INOUT),
        ("float* p = c + 4; p[0] = 1;", problem_pb2.ROLE_OUT), ("float& r = c[1]; r = 1;", problem_pb2.ROLE_OUT),
        ("reinterpret_cast<float4*>(c)[0] = make_float4(1, 2, 3, 4);", problem_pb2.ROLE_OUT),
        ("((float4*)c)[0].x = 1;", problem_pb2.ROLE_OUT), ("store(c, 1);", problem_pb2.ROLE_OUT),
        ("store(&c[2], 1);", problem_pb2.ROLE_OUT), ("c[n] = load(c);", problem_pb2.ROLE_INOUT),
        ("float* p = n ? c : nullptr; p[0] = 1;", problem_pb2.ROLE_OUT), ("__stcs(c, 1.0f);", problem_pb2.ROLE_OUT),
        ("for (int i = 0; i < n; i++) c[i] = c[i] * 2;", problem_pb2.ROLE_INOUT),
        ("auto set = [&](float v) { c[0] = v; }; set(1);", problem_pb2.ROLE_OUT),
    ],
)  # fmt: skip
def test_the_role_comes_from_what_the_kernel_does(body: str, role: problem_pb2.Role.ValueType) -> None:
    helpers = (
        "__device__ void store(float* p, float v) { *p = v; }\n__device__ float load(const float* p) { return *p; }\n"
    )
    kernel = f"{helpers}__global__ void k(float* c, int n) {{ {body} }}\n"
    imported = _program("int n = 64; float* c; cudaMalloc(&c, n * 4); k<<<1, n>>>(c, n);", kernel)
    assert _argument(imported, "c").role == role


def test_types_with_operators_of_their_own_are_written_too() -> None:
    kernel = "#include <cuda_fp16.h>\n__global__ void k(half* c, const half2* b) { c[0] = __hadd(c[1], b[0].x); }\n"
    body = "int n = 64; half* c; half2* b; cudaMalloc(&c, n * sizeof(half));"
    body += "cudaMalloc(&b, n * sizeof(half2)); k<<<1, n>>>(c, b);"
    imported = _program(body, kernel)
    assert _argument(imported, "c").role == problem_pb2.ROLE_INOUT
    assert list(_argument(imported, "b").shape) == ["n", "2"]
    assert data_types.SHORT_NAMES[_argument(imported, "b").data_type] == "f16"


def test_a_cleared_accumulator_starts_from_zero() -> None:
    kernel = "__global__ void k(float* c) { atomicAdd(c, 1.0f); }\n"
    imported = _program("float* c; cudaMalloc(&c, 4); cudaMemset(c, 0, 4); k<<<1, 32>>>(c);", kernel)
    assert _argument(imported, "c").draw.constant == "0"


def test_a_float_scalar_is_drawn_around_its_value() -> None:
    kernel = "__global__ void k(float* c, float alpha) { c[0] = alpha; }\n"
    imported = _program("float* c; cudaMalloc(&c, 4); k<<<1, 1>>>(c, 2.0f);", kernel)
    draw = _argument(imported, "alpha").draw.uniform
    assert (draw.low, draw.high) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("access", "high"),
    [
        ("x[r * C + label[r]]", "C"), ("x[label[r] + C * r]", "C"), ("x[label[r] * C + r]", "R"),
        ("(x + r * C)[label[r]]", "C"), ("*(x + label[r])", None), ("x[label[r]]", "R * C"),
        ("x[(r + 1) * C + label[r] - 1]", None),
    ],
)  # fmt: skip
def test_the_range_of_an_index_comes_from_its_use(access: str, high: str | None) -> None:
    kernel = "__global__ void k(const float* x, const int* label, float* y, int R, int C) {\n"
    kernel += f"  int r = threadIdx.x; y[r] = {access};\n}}\n"
    body = "const int rows = 64, cols = 10; float *x, *y; int* l;"
    body += "cudaMalloc(&x, rows * cols * 4); cudaMalloc(&l, rows * 4);"
    imported = _program(f"{body} cudaMalloc(&y, rows * 4); k<<<1, rows>>>(x, l, y, rows, cols);", kernel)
    if high is None:
        assert [m.field for m in imported.missing] in ([], ["arguments.label.draw"])
        return
    wanted = high.replace("R", "rows").replace("C", "cols")
    assert _argument(imported, "label").draw.integers.high == wanted


def test_an_index_through_a_variable_has_a_range() -> None:
    kernel = (
        "__global__ void gather(const float* table, const long long* ids, float* out, int D) {\n"
        "  long long row = ids[blockIdx.x]; out[blockIdx.x * D + threadIdx.x] = table[row * D + threadIdx.x]; }\n"
    )
    body = "int V = 500, D = 64, n = 100; float *t, *o; long long* i;"
    body += "cudaMalloc(&t, V * D * 4); cudaMalloc(&o, n * D * 4);"
    imported = _program(f"{body} cudaMalloc(&i, n * 8); gather<<<n, D>>>(t, i, o, D);", kernel)
    assert _argument(imported, "ids").draw.integers.high == "V"


def test_a_buffer_between_two_launches_is_scratch() -> None:
    kernels = "__global__ void one(const float* x, float* t) { t[0] = x[0]; }\n"
    kernels += "__global__ void two(const float* t, float* y) { y[0] = t[0]; }\n"
    body = "int n = 64; float *x, *t, *y, h; cudaMalloc(&x, n * 4); cudaMalloc(&t, n * 2 * 4); cudaMalloc(&y, 4);"
    body += "one<<<1, n>>>(x, t); two<<<1, 1>>>(t, y); cudaMemcpy(&h, y, 4, cudaMemcpyDeviceToHost);"
    imported = _program(body, kernels)
    assert [(s.name, s.elements) for s in imported.kernel.scratch] == [("t", "n * 2")]
    assert [argument.name for argument in imported.problem.arguments] == ["x", "y"]


def test_unrelated_launches_in_order_are_one_program() -> None:
    other = "__global__ void other(float* z) { z[threadIdx.x] = 1; }\n"
    body = f"int n = 64; {_buffers('n')} float* z; cudaMalloc(&z, n * 4); add<<<1, n>>>(a, c, n); other<<<1, n>>>(z);"
    imported = _program(body, ADD + other)
    assert [launch.kernel for launch in imported.kernel.launches] == ["add", "other"]


def test_template_arguments_are_written_as_values() -> None:
    kernel = "template <typename T, int B, bool F> __global__ void k(T* c) { c[B] = F; }\n"
    body = "constexpr int B = 128; typedef double real; real* c; cudaMalloc(&c, 2048);"
    imported = _program(f"{body} k<real, B, true><<<1, B>>>(c);", kernel)
    assert imported.kernel.launches[0].kernel == "k<double, 128, true>"


def test_deduced_template_arguments_are_written_too() -> None:
    kernel = "namespace n { template <typename T> __global__ void k(T* c) { c[0] = 1; } }\n"
    imported = _program("float* c; cudaMalloc(&c, 64); n::k<<<1, 1>>>(c);", kernel)
    assert imported.kernel.launches[0].kernel == "n::k<float>"


def test_a_buffer_with_an_offset_is_not_taken_for_the_buffer() -> None:
    imported = _program(f"int n = 64; {_buffers('n')} add<<<1, n>>>(a + 4, c, n);")
    assert "launch" in {m.field for m in imported.missing}


def test_arrays_of_buffers_are_told_apart() -> None:
    body = "int n = 64; float* d[2]; cudaMalloc(&d[0], n * 4); cudaMalloc(&d[1], n * 8); add<<<1, n>>>(d[0], d[1], n);"
    imported = _program(body)
    assert [list(a.shape) for a in imported.problem.arguments] == [["n"], ["n", "2"]]


def test_names_that_python_keeps_for_itself_get_an_underscore() -> None:
    kernel = "__global__ void k(const float* in, float* lambda) { lambda[0] = in[0]; }\n"
    imported = _program(f"int n = 64; {_buffers('n')} k<<<1, n>>>(a, c);", kernel)
    assert [argument.name for argument in imported.problem.arguments] == ["in_", "lambda_"]


def test_constant_memory_that_the_host_fills_is_told() -> None:
    kernel = "__constant__ float w[4];\n__global__ void k(float* c) { c[0] = w[0]; }\n"
    body = "float h[4], *c; cudaMalloc(&c, 64); cudaMemcpyToSymbol(w, h, 16); k<<<1, 1>>>(c);"
    imported = _program(body, kernel)
    assert [(m.field, m.line) for m in imported.missing] == [("launch", 6)]
    assert "the host fills 'w'" in imported.missing[0].why


def test_a_struct_passed_by_value_is_told() -> None:
    kernel = "struct P { int a; };\n__global__ void k(float* c, P p) { c[p.a] = 1; }\n"
    imported = _program("float* c; P p; cudaMalloc(&c, 64); k<<<1, 1>>>(c, p);", kernel)
    assert "'p' has type 'P'" in imported.missing[0].why


def test_a_kernel_alone_is_described_by_its_signature() -> None:
    imported = import_file(ADD, "a.cu")
    assert [argument.name for argument in imported.problem.arguments] == ["a", "c"]
    assert {m.field for m in imported.missing} >= {"arguments.a.shape", "launch", "sizes.time[0].n"}


def test_the_line_of_device_code_is_found_in_the_file() -> None:
    imported = _program(f"int n = 64; {_buffers('n')} add<<<1, n>>>(a, c, n);")
    assert imported.file_line(1) == 3


def test_a_torch_extension_keeps_what_can_be_read() -> None:
    text = f"""#include <torch/extension.h>
{ADD}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  int n = x.numel();
  add<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}}
"""
    imported = import_file(text, "a.cu")
    assert list(imported.kernel.launches[0].grid) == ["ceil_div(n, 256)"]
    assert "torch" not in imported.kernel.source
    assert {m.field for m in imported.missing} == {"arguments.a.shape", "arguments.c.shape", "sizes.time[0].n"}


def test_a_byte_count_of_fixed_numbers_is_no_parameter() -> None:
    kernel = ADD.replace("i < n", "i < N")
    body = "int size = N * N * sizeof(float); float *a, *c; cudaMalloc(&a, size); cudaMalloc(&c, size);"
    imported = _program(f"{body} add<<<N, N>>>(a, c, N);", kernel, "#define N 512\n")
    assert list(imported.problem.parameters) == []
    assert list(_argument(imported, "a").shape) == ["262144"]


def test_a_struct_that_is_passed_to_a_wrapper_is_followed() -> None:
    head = "struct Options { int n = 4096; };\n" + ADD
    head += "void run(float* x, float* y, Options o) { add<<<(o.n + 63) / 64, 64>>>(x, y, o.n); }\n"
    imported = _program(
        "Options o; float *a, *c; cudaMalloc(&a, o.n * 4); cudaMalloc(&c, o.n * 4); run(a, c, o);", head
    )
    assert imported.missing == []
    assert imported.problem.time[0].parameters == {"n": 4096}


def test_a_launch_through_a_variable_is_followed() -> None:
    imported = _program(f"int n = 64; {_buffers('n')} auto run = add; run<<<1, n>>>(a, c, n);")
    assert imported.kernel.launches[0].kernel == "add"


def test_an_integer_that_changes_becomes_a_parameter_without_value() -> None:
    imported = _program(f"int n = 64; {_buffers('n')} for (int k = 1; k < n; k *= 2) add<<<1, n>>>(a, c, k);")
    assert [m.field for m in imported.missing] == ["sizes.time[0].n_"]

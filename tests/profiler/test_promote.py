"""A float kernel becomes a double one, token by token."""

import pytest

from services.profiler.promote import promoted_kernel, promoted_problem
from tests.profiler.kernels import F64, RELU_SOURCE, launch, relu_kernel, relu_problem


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float x = 1.0f;", "double x = 1.0;"),
        ("x = 1e-5f + .5F + 2.f + 3f;", "x = 1e-5 + .5 + 2. + 3.0;"),
        ("y = expf(x) + __expf(x) + fmaxf(x, 0.f);", "y = exp(x) + exp(x) + fmax(x, 0.);"),
        ("float4 v = make_float4(x, x, x, x);", "double4 v = make_double4(x, x, x, x);"),
        ('printf("float 1.0f"); // float', 'printf("float 1.0f"); // float'),
        ("int i = 0x1f; int floaty = buf;", "int i = 0x1f; int floaty = buf;"),
        ("reinterpret_cast<const float*>(p)", "reinterpret_cast<const double*>(p)"),
    ],
)
def test_tokens_are_promoted(before: str, after: str) -> None:
    promoted = promoted_kernel(relu_kernel(before))
    assert promoted is not None
    assert promoted.source == after


@pytest.mark.parametrize("source", ["__half x;", "x = __int_as_float(i);", 'asm("");', "__nv_bfloat162 y;"])
def test_what_cannot_be_promoted_is_left_alone(source: str) -> None:
    assert promoted_kernel(relu_kernel(source)) is None


def test_launches_follow() -> None:
    kernel = relu_kernel(RELU_SOURCE)
    kernel.launches[0].CopyFrom(launch("k<float, 4>", ["1"], ["32"], "x", "f32 alpha", shared="4 * N"))
    promoted = promoted_kernel(kernel)
    assert promoted is not None
    assert promoted.launches[0].kernel == "k<double, 4>"
    assert promoted.launches[0].dynamic_shared_memory_bytes == "2 * (4 * N)"
    assert promoted.launches[0].arguments[1].scalar.data_type == F64


def test_the_problems_floats_become_doubles() -> None:
    assert {argument.data_type for argument in promoted_problem(relu_problem()).arguments} == {F64}

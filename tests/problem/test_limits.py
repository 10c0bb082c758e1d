"""What a launch plan and a problem may not be."""

from collections.abc import Callable

import pytest

from optiml.problem import validate_kernel, validate_problem
from optiml.v1 import kernel_pb2, problem_pb2

F32, I32 = kernel_pb2.DATA_TYPE_F32, kernel_pb2.DATA_TYPE_I32


def _problem() -> problem_pb2.Problem:
    problem = problem_pb2.Problem(name="scale", reference=problem_pb2.Reference(numpy="y = 2 * x"))
    problem.parameters.add(name="N")
    x = problem.arguments.add(name="x", data_type=F32, shape=["N"], role=problem_pb2.ROLE_IN)
    x.draw.uniform.low, x.draw.uniform.high = -1, 1
    problem.arguments.add(name="y", data_type=F32, shape=["N"], role=problem_pb2.ROLE_OUT)
    for sizes, value in ((problem.smoke, 37), (problem.check, 1003), (problem.time, 1 << 20)):
        sizes.add().parameters["N"] = value
    return problem


def _kernel() -> kernel_pb2.Kernel:
    kernel = kernel_pb2.Kernel(source="__global__ void f(const float* x, float* y, int n) {}")
    launch = kernel.launches.add(kernel="f", grid=["ceil_div(N, 256)"], block=["256"])
    launch.arguments.add(buffer="x")
    launch.arguments.add(buffer="y")
    launch.arguments.add(scalar=kernel_pb2.Scalar(data_type=I32, expression="N"))
    return kernel


def test_a_right_problem_and_kernel_have_no_violations() -> None:
    assert validate_problem(_problem()) == []
    assert validate_kernel(_kernel(), _problem()) == []


def _set_grid(kernel: kernel_pb2.Kernel, *extents: str) -> None:
    del kernel.launches[0].grid[:]
    kernel.launches[0].grid.extend(extents)


def _set_block(kernel: kernel_pb2.Kernel, *extents: str) -> None:
    del kernel.launches[0].block[:]
    kernel.launches[0].block.extend(extents)


WRONG_KERNELS: dict[str, tuple[Callable[[kernel_pb2.Kernel], object], str]] = {
    "no source": (lambda k: k.ClearField("source"), "kernel.source"),
    "much source": (lambda k: setattr(k, "source", "x" * (2 << 20)), "kernel.source"),
    "no launch": (lambda k: k.ClearField("launches"), "kernel.launches"),
    "many launches": (lambda k: k.launches.extend([k.launches[0]] * 64), "kernel.launches"),
    "unknown name in the grid": (lambda k: _set_grid(k, "M"), "kernel.launches[0].grid[0]"),
    "empty grid at a small size": (lambda k: _set_grid(k, "N / 256"), "kernel.launches[0].grid[0]"),
    "too wide a grid": (lambda k: _set_grid(k, "1", "70000"), "kernel.launches[0].grid[1]"),
    "four extents": (lambda k: _set_grid(k, "1", "1", "1", "1"), "kernel.launches[0].grid"),
    "division by zero": (lambda k: _set_grid(k, "N / (N - N)"), "kernel.launches[0].grid[0]"),
    "code in an expression": (lambda k: _set_grid(k, "__import__('os')"), "kernel.launches[0].grid[0]"),
    "endless power": (lambda k: _set_grid(k, "9 ** 9 ** 9"), "kernel.launches[0].grid[0]"),
    "too large a block": (lambda k: _set_block(k, "2048"), "kernel.launches[0].block[0]"),
    "too many threads": (lambda k: _set_block(k, "64", "64"), "kernel.launches[0].block"),
    "part of a thread": (lambda k: _set_block(k, "0.5"), "kernel.launches[0].block[0]"),
    "much shared memory": (
        lambda k: setattr(k.launches[0], "dynamic_shared_memory_bytes", "1 << 20"),
        "kernel.launches[0].dynamic_shared_memory_bytes",
    ),
    "unknown buffer": (lambda k: setattr(k.launches[0].arguments[0], "buffer", "z"), "kernel.launches[0].arguments[0]"),
    "nothing passed": (lambda k: k.launches[0].arguments[1].Clear(), "kernel.launches[0].arguments[1]"),
    "no dtype": (
        lambda k: k.launches[0].arguments[2].scalar.ClearField("data_type"),
        "kernel.launches[0].arguments[2]",
    ),
    "kernel name with code": (lambda k: setattr(k.launches[0], "kernel", "f; system()"), "kernel.launches[0].kernel"),
    "long kernel name": (lambda k: setattr(k.launches[0], "kernel", "f" * 10_000), "kernel.launches[0].kernel"),
    "scratch with an argument's name": (
        lambda k: k.scratch.add(name="x", data_type=F32, elements="N"),
        "kernel.scratch[0].name",
    ),
    "scratch of no size": (
        lambda k: k.scratch.add(name="t", data_type=F32, elements="0"),
        "kernel.scratch[0].elements",
    ),
}


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_a_wrong_launch_plan_is_refused_with_its_field(name: str) -> None:
    change, field = WRONG_KERNELS[name]
    kernel = _kernel()
    change(kernel)
    assert field in {violation.field for violation in validate_kernel(kernel, _problem())}


WRONG_PROBLEMS: dict[str, tuple[Callable[[problem_pb2.Problem], object], str]] = {
    "no name": (lambda p: p.ClearField("name"), "name"),
    "no output": (lambda p: p.arguments.pop(), "arguments"),
    "no draw": (lambda p: p.arguments[0].ClearField("draw"), "arguments.x.draw"),
    "no dtype": (lambda p: p.arguments[0].ClearField("data_type"), "arguments.x.dtype"),
    "no role": (lambda p: p.arguments[0].ClearField("role"), "arguments.x.role"),
    "no shape": (lambda p: p.arguments[0].ClearField("shape"), "arguments.x.shape"),
    "the same name twice": (lambda p: setattr(p.arguments[0], "name", "N"), "arguments.N"),
    "a name that means something": (lambda p: setattr(p.arguments[0], "name", "np"), "arguments.np"),
    "no reference": (lambda p: p.ClearField("reference"), "reference"),
    "no time size": (lambda p: p.ClearField("time"), "sizes.time"),
    "a size without value": (lambda p: p.smoke[0].parameters.pop("N"), "sizes.smoke[0].N"),
    "a size of something else": (lambda p: p.smoke[0].parameters.update(M=3), "sizes.smoke[0].M"),
    "a negative size": (lambda p: p.smoke[0].parameters.update(N=-3), "sizes.smoke[0].N"),
    "an empty buffer": (lambda p: p.smoke[0].parameters.update(N=0), "arguments.x.shape"),
    "a huge buffer": (lambda p: p.time[0].parameters.update(N=1 << 50), "arguments.x.shape"),
    "a tolerance that is no number": (lambda p: setattr(p.tolerance, "absolute", float("nan")), "tolerance.absolute"),
    "a size not a multiple": (lambda p: setattr(p.parameters[0], "multiple_of", 8), "sizes.smoke[0].N"),
}


@pytest.mark.parametrize("name", WRONG_PROBLEMS)
def test_a_wrong_problem_is_refused_with_its_field(name: str) -> None:
    change, field = WRONG_PROBLEMS[name]
    problem = _problem()
    change(problem)
    assert field in {violation.field for violation in validate_problem(problem)}

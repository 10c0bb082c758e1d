import re
from collections.abc import Callable
from pathlib import Path

import pytest

from optiml.problem import validate_kernel, validate_problem
from optiml.problem_file import load_problem
from optiml.v1 import kernel_pb2, problem_pb2

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "problem-file.md"
FILE = load_problem(re.findall(r"```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)[0])


def _problem() -> problem_pb2.Problem:
    copy = problem_pb2.Problem()
    copy.CopyFrom(FILE.problem)
    return copy


def _kernel() -> kernel_pb2.Kernel:
    return kernel_pb2.Kernel(source="__global__ void gemm() {}", launches=FILE.launches)


def test_a_good_problem_and_kernel_have_no_violation() -> None:
    assert validate_problem(_problem()) == []
    assert validate_kernel(_kernel(), _problem()) == []


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda p: setattr(p, "name", ""), "name"),
        (lambda p: setattr(p, "name", "x\ny"), "name"),
        (lambda p: setattr(p.parameters[0], "name", "1x"), "parameters.1x"),
        (lambda p: setattr(p.parameters[0], "name", "N"), "parameters.N"),
        (lambda p: setattr(p.arguments[0], "name", "np"), "arguments.np"),
        (lambda p: setattr(p.arguments[0], "data_type", 99), "arguments.A.dtype"),
        (lambda p: setattr(p.arguments[0], "role", 77), "arguments.A.role"),
        (lambda p: p.arguments[0].shape.append("Q"), "arguments.A"),
        (lambda p: p.arguments[0].shape.append("M - 100"), "arguments.A.shape"),
        (lambda p: p.arguments[0].shape.append("1 << 45"), "arguments.A.shape"),
        (lambda p: p.arguments[0].ClearField("draw"), "arguments.A.draw"),
        (lambda p: setattr(p.arguments[0].draw.uniform, "high", float("nan")), "arguments.A.draw"),
        (lambda p: p.ClearField("smoke"), "sizes.smoke"),
        (lambda p: p.smoke[0].parameters.pop("M"), "sizes.smoke[0].M"),
        (lambda p: p.smoke[0].parameters.update(Z=1), "sizes.smoke[0].Z"),
        (lambda p: p.smoke[0].parameters.update(K=31), "sizes.smoke[0].K"),
        (lambda p: p.smoke[0].parameters.update(M=-1), "sizes.smoke[0].M"),
        (lambda p: p.ClearField("reference"), "reference"),
        (lambda p: setattr(p.tolerance, "absolute", -1.0), "tolerance.absolute"),
        (lambda p: setattr(p.tolerance, "relative", float("inf")), "tolerance.relative"),
    ],
)
def test_a_bad_problem_names_the_field(spoil: Callable[[problem_pb2.Problem], object], field: str) -> None:
    problem = _problem()
    spoil(problem)
    assert field in [violation.field for violation in validate_problem(problem)]


def test_a_problem_without_outputs_has_nothing_to_check() -> None:
    problem = _problem()
    problem.arguments[2].role = problem_pb2.ROLE_IN
    problem.arguments[2].draw.constant = "0"
    assert [v.field for v in validate_problem(problem)] == ["arguments"]


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda k: setattr(k, "source", "  "), "kernel.source"),
        (lambda k: setattr(k, "source", "x" * (2 << 20)), "kernel.source"),
        (lambda k: k.ClearField("launches"), "kernel.launches"),
        (lambda k: setattr(k.launches[0], "kernel", "f(); rm"), "kernel.launches[0].kernel"),
        (lambda k: k.launches[0].ClearField("grid"), "kernel.launches[0].grid"),
        (lambda k: k.launches[0].block.append("128"), "kernel.launches[0].block[2]"),
        (lambda k: k.launches[0].block.append("5"), "kernel.launches[0].block"),
        (lambda k: k.launches[0].grid.append("0"), "kernel.launches[0].grid[2]"),
        (lambda k: k.launches[0].grid.append("M * 1000"), "kernel.launches[0].grid[2]"),
        (lambda k: setattr(k.launches[0].arguments[0], "buffer", "D"), "kernel.launches[0].arguments[0]"),
        (lambda k: setattr(k.launches[0].arguments[4].scalar, "expression", "Q"), "kernel.launches[0].arguments[4]"),
        (lambda k: k.launches[0].arguments.add(), "kernel.launches[0].arguments[7]"),
        (lambda k: k.scratch.add(name="A", data_type=3, elements="1"), "kernel.scratch[0].name"),
        (lambda k: k.scratch.add(name="t", data_type=3, elements="0"), "kernel.scratch[0].elements"),
        (lambda k: k.scratch.add(name="t", elements="1"), "kernel.scratch[0].data_type"),
        (
            lambda k: setattr(k.launches[0], "dynamic_shared_memory_bytes", "1 << 20"),
            "kernel.launches[0].dynamic_shared_memory_bytes",
        ),
    ],
)
def test_a_bad_kernel_names_the_field(spoil: Callable[[kernel_pb2.Kernel], object], field: str) -> None:
    kernel = _kernel()
    spoil(kernel)
    assert field in [violation.field for violation in validate_kernel(kernel, _problem())]

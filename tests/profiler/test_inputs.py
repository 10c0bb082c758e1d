"""The same case always gives the same bits, within the ranges that the problem states."""

import numpy as np
import pytest

from optiml.v1 import problem_pb2
from services.profiler.inputs import Case, draw, scalars
from services.profiler.storage import Kind, from_float64, kind_of, to_wide
from tests.profiler.kernels import BF16, F16, F32, F64, I32, buffer, relu_problem


def _case(seed: int = 1, inputs: str = "drawn", **size: int) -> Case:
    return Case(tuple(sorted(size.items())), seed, inputs)


def test_the_same_case_gives_the_same_bits() -> None:
    first, second = (draw(relu_problem(), _case(N=100)).buffers["x"] for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_another_seed_gives_other_values() -> None:
    first, second = (draw(relu_problem(), _case(seed, N=100)).buffers["x"] for seed in (1, 2))
    assert not np.any(first == second)


def test_another_argument_does_not_change_the_first() -> None:
    more = relu_problem()
    more.arguments.insert(0, buffer("w", problem_pb2.ROLE_IN, "N"))
    assert np.array_equal(draw(more, _case(N=50)).buffers["x"], draw(relu_problem(), _case(N=50)).buffers["x"])


def test_integers_stay_in_their_range_for_adversarial_inputs_too() -> None:
    problem = relu_problem()
    index = problem_pb2.Argument(name="i", data_type=I32, role=problem_pb2.ROLE_IN, shape=["N"])
    index.draw.integers.low, index.draw.integers.high = "0", "N // 2"
    problem.arguments.append(index)
    for inputs in ("drawn", "zeros", "large", "tiny"):
        drawn = draw(problem, _case(1, inputs, N=1000)).buffers["i"]
        assert drawn.min() == 0
        assert drawn.max() == 499


@pytest.mark.parametrize(("inputs", "factor"), [("zeros", 0.0), ("large", 1024.0), ("tiny", 2.0**-20)])
def test_adversarial_inputs_are_the_drawn_ones_scaled(inputs: str, factor: float) -> None:
    drawn = draw(relu_problem(), _case(N=64)).buffers["x"]
    assert np.array_equal(draw(relu_problem(), _case(1, inputs, N=64)).buffers["x"], drawn * np.float32(factor))


def test_large_halves_stay_finite() -> None:
    problem = relu_problem()
    problem.arguments[0].data_type = F16
    problem.arguments[0].draw.uniform.low, problem.arguments[0].draw.uniform.high = -200, 200
    assert np.all(np.isfinite(draw(problem, _case(1, "large", N=64)).buffers["x"]))


def test_a_constant_scalar_is_rounded_to_its_type() -> None:
    problem = relu_problem()
    alpha = problem_pb2.Argument(name="alpha", data_type=F32, role=problem_pb2.ROLE_SCALAR)
    alpha.draw.constant = "0.1"
    problem.arguments.append(alpha)
    assert scalars(problem, _case(N=1)) == {"alpha": float(np.float32(0.1))}


@pytest.mark.parametrize("data_type", [F16, BF16, F32, F64])
def test_rounding_to_a_type_and_back_is_within_its_roundoff(data_type: int) -> None:
    kind: Kind = kind_of(data_type)  # type: ignore[arg-type]
    values = np.random.default_rng(0).standard_normal(1000)
    back = to_wide(from_float64(values, kind), kind)
    assert np.max(np.abs(back - values) / np.abs(values)) <= kind.unit_roundoff


def test_bfloat16_rounds_to_even_and_keeps_specials() -> None:
    kind = kind_of(BF16)
    values = np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -2.0, np.inf, -np.inf, np.nan, 1e39, 0.0])
    back = to_wide(from_float64(values, kind), kind)
    expected = [1.0, 1.0, 1 + 2.0**-6, -2.0, np.inf, -np.inf, np.nan, np.inf, 0.0]
    assert np.array_equal(back, expected, equal_nan=True)

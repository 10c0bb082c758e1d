"""What passes for right and what does not, and how it is told."""

from typing import Any

import numpy as np
import pytest

from optiml.v1 import problem_pb2
from services.profiler.compare import POISON, SECOND_POISON, Difference, compare
from services.profiler.storage import kind_of
from services.profiler.tolerance import Allowed, allowed, reduction_length
from tests.profiler.kernels import F32, I32

FLOAT, INTEGER = kind_of(F32), kind_of(I32)
TIGHT = Allowed(absolute=1e-5, relative=1e-5)


def _floats(got: list[float], expected: list[float], **options: Any) -> Difference:
    return compare("C", np.array(got, np.float32), np.array(expected), FLOAT, TIGHT, **options)


def _poisoned(byte: int, count: int = 1) -> "np.ndarray[Any, Any]":
    return np.frombuffer(bytes([byte]) * 4 * count, np.float32)


def test_rounding_errors_pass() -> None:
    assert _floats([1.000001, 2.0], [1.0, 2.0]).reason == ""


def test_the_first_wrong_element_is_told_with_index_and_count() -> None:
    got, expected = np.zeros((3, 4), np.float32), np.zeros((3, 4))
    expected[1, 2], expected[2, 0] = 1.25, -1.0
    difference = compare("C", got, expected, FLOAT, TIGHT)
    assert difference.reason == "C[1, 2] is 0, expected 1.25; 2 of 12 elements are wrong"
    assert difference.max_absolute == 1.25


@pytest.mark.parametrize(
    ("got", "expected"),
    [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (1.0, np.inf), (-np.inf, np.inf), (np.inf, np.nan)],
)
def test_special_values_must_agree(got: float, expected: float) -> None:
    assert _floats([got], [expected]).max_over_allowed == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_that_agree_pass(value: float) -> None:
    assert _floats([value], [value]).reason == ""


def test_an_expected_value_beyond_the_type_is_an_infinity() -> None:
    assert _floats([np.inf], [1e39]).reason == ""


@pytest.mark.parametrize("poison", [POISON, SECOND_POISON])
def test_an_element_that_was_never_written_is_told(poison: int) -> None:
    difference = compare("y", _poisoned(poison), np.array([2.0]), FLOAT, TIGHT, poison=poison)
    assert difference.reason == "y[0] was never written, expected 2"


def test_poison_does_not_pass_for_an_expected_nan() -> None:
    assert compare("y", _poisoned(POISON), np.array([np.nan]), FLOAT, TIGHT).reason


def test_a_border_that_may_be_unwritten_is_not_compared() -> None:
    got = np.concatenate([_poisoned(POISON), np.array([1.0], np.float32)])
    expected = np.array([np.nan, 1.0])
    assert compare("y", got, expected, FLOAT, TIGHT, may_be_unwritten=True).reason == ""


def test_an_unwritten_element_that_the_reference_writes_fails_all_the_same() -> None:
    assert compare("y", _poisoned(POISON), np.array([1.0]), FLOAT, TIGHT, may_be_unwritten=True).reason


def test_integers_must_agree_exactly() -> None:
    got, expected = np.array([2**31 - 1, 5], np.int32), np.array([2**31 - 1, 6], np.int32)
    difference = compare("n", got, expected, INTEGER, Allowed(0, 0))
    assert difference.reason == "n[1] is 5, expected 6"


def test_zeros_never_pass_for_small_expected_values() -> None:
    expected = np.random.default_rng(1).standard_normal(1000) * 1e-6
    limits = allowed(problem_pb2.Tolerance(), FLOAT, expected, length=1000)
    assert compare("y", np.zeros(1000, np.float32), expected, FLOAT, limits).reason


def test_a_sum_in_another_order_passes_by_default() -> None:
    rows = np.random.default_rng(2).uniform(-1, 1, (64, 4096)).astype(np.float32)
    sequential = np.zeros(64, np.float32)
    for column in range(4096):
        sequential += rows[:, column]
    expected = rows.astype(np.float64).sum(axis=1)
    limits = allowed(problem_pb2.Tolerance(), FLOAT, expected, reduction_length([rows.size], 64))
    assert compare("sums", sequential, expected, FLOAT, limits).max_over_allowed < 1


def test_a_dropped_term_of_a_long_sum_fails_by_default() -> None:
    rows = np.random.default_rng(3).uniform(-1, 1, (64, 4096))
    expected = rows.sum(axis=1)
    limits = allowed(problem_pb2.Tolerance(), FLOAT, expected, reduction_length([rows.size], 64))
    assert compare("sums", (expected - rows[:, -1]).astype(np.float32), expected, FLOAT, limits).reason


@pytest.mark.parametrize(
    ("inputs", "output", "length"),
    [([64 * 80, 80 * 96], 64 * 96, 80), ([64 * 4096], 64, 4096), ([100], 100, 1), ([], 10, 1)],
)
def test_the_reduction_length_follows_from_the_shapes(inputs: list[int], output: int, length: float) -> None:
    assert reduction_length(inputs, output) == pytest.approx(length)

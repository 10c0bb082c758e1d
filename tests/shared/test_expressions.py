import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml.expressions import ExpressionError, evaluate, evaluate_integer, names


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N", 100),
        ("ceil_div(N, 16)", 7),
        ("ceil_div(N, 16) * 16 - N", 12),
        ("min(N, 64) + max(M, 3)", 67),
        ("-N // 3", -34),
        ("N / 3", 33),
        ("(0 - N) / 3", -33),
        ("1 << 10", 1024),
        ("alpha * 2", 1.0),
        ("N % M", 0),
    ],
)
def test_expressions_have_the_value_that_a_reader_expects(text: str, value: float) -> None:
    assert evaluate(text, {"N": 100, "M": 2, "alpha": 0.5}) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("K", "unknown name 'K'"),
        ("N / 0", "divides by zero"),
        ("N // (M - 2)", "divides by zero"),
        ("__import__('os').system('id')", "not allowed"),
        ("N ** 99999", "not allowed"),
        ("[N for N in range(3)]", "not allowed"),
        ("N.real", "not allowed"),
        ("True", "write 1 or 0"),
        ("'text'", "not allowed"),
        ("(1 << 62) * 4", "63 bits"),
        ("1 << 63", "shift"),
        ("", "cannot read"),
        ("N +", "cannot read"),
        ("(" * 400, "cannot read"),
        ("N" * 600, "at most 512"),
        ("1e308 * 1e308 * 0", "no finite value"),
    ],
)
def test_what_is_not_an_expression_of_ours_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ExpressionError, match=complaint):
        evaluate(text, {"N": 100, "M": 2})


def test_a_size_must_be_a_whole_number() -> None:
    with pytest.raises(ExpressionError, match="not a whole number"):
        evaluate_integer("N * 0.5", {"N": 3})
    assert evaluate_integer("N * 0.5", {"N": 4}) == 2


def test_names_leave_out_functions() -> None:
    assert names("ceil_div(N, 16) * min(M, K)") == {"N", "M", "K"}


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div_covers_with_the_fewest_blocks(n: int, block: int) -> None:
    blocks = evaluate_integer("ceil_div(n, b)", {"n": n, "b": block})
    assert (blocks - 1) * block < n <= blocks * block or n == blocks == 0


@given(st.text(max_size=80))
def test_any_text_gives_a_number_or_one_error(text: str) -> None:
    try:
        evaluate(text, {"N": 3})
    except ExpressionError as error:
        assert str(error)

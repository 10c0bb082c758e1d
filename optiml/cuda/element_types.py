"""Element types as C++ spells them, and how many elements a buffer of them has."""

import ast
import re
from collections.abc import Sequence

from optiml.cuda.expression_algebra import factors_of, to_text

__all__ = ["lanes_of", "product_text", "quotient_text"]

_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|longlong|ulonglong|float|double)([234])\Z")
_VECTOR_TYPES = {
    "char": "signed char", "uchar": "unsigned char", "ushort": "unsigned short", "uint": "unsigned int",
    "longlong": "long long", "ulonglong": "unsigned long long",
}  # fmt: skip
_PAIRS = {"__half2": "__half", "__nv_bfloat162": "__nv_bfloat16"}


def lanes_of(element: str) -> tuple[str, int]:
    """Return the scalar type of a vector type such as float4, and how many there are."""
    if element in _PAIRS:
        return _PAIRS[element], 2
    match = _VECTOR.match(element)
    if match is None:
        return element, 1
    return _VECTOR_TYPES.get(match.group(1), match.group(1)), int(match.group(2))


def product_text(factors: Sequence[str]) -> str:
    """Return the product of some expressions."""
    return factors[0] if len(factors) == 1 else " * ".join(f"({f})" if " " in f else f for f in factors)


def quotient_text(elements: ast.expr, divisors: Sequence[str]) -> str:
    """Return a number of elements over some factors of it."""
    factors = [to_text(factor) for factor in factors_of(elements)]
    rest: list[str] = []
    for divisor in divisors:
        if divisor in factors:
            factors.remove(divisor)
        else:
            rest.append(divisor)
    product = product_text(factors) if factors else "1"
    return f"({product}) // ({product_text(rest)})" if rest else product

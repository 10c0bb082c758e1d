"""Integer expressions as polynomials over names, and texts with names replaced."""

import re
from collections.abc import Mapping

from optiml import expressions
from services.generator.rewriting.syntax import Expression

__all__ = [
    "NotApplicable",
    "Polynomial",
    "coefficient",
    "constants_of",
    "host_expression",
    "polynomial",
    "renamed",
    "written",
]

Polynomial = dict[tuple[str, ...], int]
"""Sum of products: sorted factors to their integer coefficient; () is the constant term."""

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
_NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$"
    r"|(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|unsigned|size_t|long)\s+(\w+)\s*=\s*([^;]+);",
    re.MULTILINE,
)
_HOST = re.compile(r"[\w\s+\-*/%()]+$")
_MAX_TERMS = 64
_INTEGER_TYPES = {
    "int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long", "size_t", "short",
    "unsigned short", "int64_t", "uint32_t", "int32_t", "uint64_t", "unsigned", "ptrdiff_t",
}  # fmt: skip


class NotApplicable(Exception):  # noqa: N818 - it is an answer, not a failure
    """A transformation's precondition does not hold; the text says which."""


def is_integer(type_name: str) -> bool:
    """Whether the type is an integer that can index."""
    return type_name in _INTEGER_TYPES


def constants_of(source: str) -> dict[str, int]:
    """Return the integer macros and constants that the file defines, where their value is plain."""
    found: dict[str, int] = {}
    for match in _CONSTANT.finditer(source):
        name, value = (match[1], match[2]) if match[1] else (match[3], match[4])
        try:
            found[name] = expressions.evaluate_integer(re.sub(r"//.*|/\*.*?\*/", "", value), found)
        except expressions.ExpressionError:
            continue
    return found


def renamed(text: str, replacements: Mapping[str, str]) -> str:
    """Return the text with names replaced; members keep their name; what is no single name gets parentheses."""

    def replace(match: re.Match[str]) -> str:
        new = replacements.get(match.group())
        if new is None:
            return match.group()
        alone = _IDENTIFIER.match(new) or re.match(r"[\w.]+$", new) or match.string == match.group()
        return new if alone else f"({new})"

    return _NAME.sub(replace, text)


def written(expression: Expression, replacements: Mapping[str, str]) -> str:
    """Return the expression's text with names replaced.

    Raises:
        NotApplicable: a macro hides one of the names.
    """
    if expression.hidden and not expression.names.isdisjoint(replacements):
        raise NotApplicable(f"a macro hides the variables of `{expression.text}`")
    return renamed(expression.text, replacements)


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            key = tuple(sorted(a + b))
            product[key] = product.get(key, 0) + x * y
    return product


def _plus(left: Polynomial, right: Polynomial, sign: int = 1) -> Polynomial:
    total = dict(left)
    for key, value in right.items():
        total[key] = total.get(key, 0) + sign * value
    return {key: value for key, value in total.items() if value}


def polynomial(expression: Expression, definitions: Mapping[str, Expression]) -> Polynomial:
    """Return the expression as a polynomial; what is no sum or product stays one factor, by its text.

    Args:
        expression: an integer expression.
        definitions: values of locals that are assigned once; they are put in.
    """
    match expression:
        case Expression(kind="number", text=text) if found := _INTEGER.match(text):
            value = int(found[1], 0) if not found[1].isdigit() else int(found[1])
            return {(): value} if value else {}
        case Expression(kind="name", operator=name) if name in definitions:
            return polynomial(definitions[name], {key: value for key, value in definitions.items() if key != name})
        case Expression(kind="binary", operator="+" | "-" as operator, operands=(left, right)):
            sign = 1 if operator == "+" else -1
            return _plus(polynomial(left, definitions), polynomial(right, definitions), sign)
        case Expression(kind="binary", operator="*", operands=(left, right)):
            product = _times(polynomial(left, definitions), polynomial(right, definitions))
            if len(product) <= _MAX_TERMS:
                return product
        case Expression(kind="unary", operator="-", operands=(operand,)):
            return _plus({}, polynomial(operand, definitions), -1)
        case Expression(kind="unary", operator="+", operands=(operand,)):
            return polynomial(operand, definitions)
        case Expression(kind="cast", operator=to, operands=(operand,)) if is_integer(to):
            return polynomial(operand, definitions)
    factor = re.sub(r"\s+", "", expression.text)
    if expression.hidden:  # a macro's variables count, too
        factor += f" of {' '.join(sorted(expression.names))}"
    return {(factor,): 1}


def coefficient(of: Polynomial, name: str) -> Polynomial | None:
    """Return the polynomial's coefficient of a name; None if the name occurs in another way than as one factor."""
    found: Polynomial = {}
    word = re.compile(rf"\b{re.escape(name)}\b")
    for factors, value in of.items():
        count = factors.count(name)
        rest = tuple(factor for factor in factors if factor != name)
        if count > 1 or any(word.search(factor) for factor in rest):
            return None
        if count == 1:
            found[rest] = found.get(rest, 0) + value
    return found


def host_expression(expression: Expression, values: Mapping[str, str]) -> str:
    """Return the expression over the problem's parameters instead of the kernel's.

    Args:
        expression: an integer expression of a kernel.
        values: for each scalar parameter and constant, its expression at the launch.

    Raises:
        NotApplicable: it uses something else.
    """
    unknown = sorted(name for name in expression.names if name not in values)
    if unknown:
        raise NotApplicable(f"`{expression.text}` uses `{unknown[0]}`, which the launch plan does not know")
    text = renamed(re.sub(r"\((?:int|unsigned|size_t|long|unsigned int)\)", "", expression.text), values)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    left = [name for name in expressions_names(text) if name not in " ".join(values.values())]
    if left:
        raise NotApplicable(f"`{expression.text}` uses `{left[0]}`, which the launch plan does not know")
    return text


def expressions_names(text: str) -> frozenset[str]:
    """Return the names in a launch expression.

    Raises:
        NotApplicable: it is no launch expression.
    """
    if not _HOST.match(text.replace("ceil_div", "").replace(",", " ")):
        raise NotApplicable(f"`{text}` cannot be written in a launch plan")
    try:
        return expressions.names(text)
    except expressions.ExpressionError as error:
        raise NotApplicable(f"`{text}` cannot be written in a launch plan") from error

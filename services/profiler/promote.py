"""Rewrites a kernel and its problem from float to double, token by token, to serve as a more exact reference.

A text with half types, bit tricks or vendor intrinsics may not compile afterwards, or mean something else; the caller
compiles it, compares it with the original on a small size, and falls back to the original.
"""

import re

from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["promoted_kernel", "promoted_problem"]

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<literal>(?<![\w.])(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fF]\b)"""
    r"""|(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL,
)
_NAMES = {
    "float": "double",
    "float1": "double1",
    "float2": "double2",
    "float3": "double3",
    "float4": "double4",
    "make_float2": "make_double2",
    "make_float3": "make_double3",
    "make_float4": "make_double4",
    "__expf": "exp",
    "__exp10f": "exp10",
    "__logf": "log",
    "__log2f": "log2",
    "__sinf": "sin",
    "__cosf": "cos",
    "__powf": "pow",
    "__fsqrt_rn": "sqrt",
    "__frsqrt_rn": "rsqrt",
    "__fmaf_rn": "fma",
    "__fadd_rn": "__dadd_rn",
    "__fmul_rn": "__dmul_rn",
    "__fdividef": "__ddiv_rn",
    "__fdiv_rn": "__ddiv_rn",
    "__frcp_rn": "__drcp_rn",
    "__int2float_rn": "__int2double_rn",
}
_FUNCTIONS = frozenset(
    """
    exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt cbrt rcbrt sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh pow fma fmax fmin fabs fmod floor ceil trunc round rint nearbyint erf erfc erfinv normcdf tgamma
    lgamma hypot copysign remainder fdim ldexp scalbn sinpi cospi
    """.split()  # noqa: SIM905 - names read better as text
)
_NOT_PROMOTABLE = re.compile(
    r"\b(?:__half2?|half2?|__nv_bfloat16\d?|nv_bfloat16\d?|asm|__float_as_u?int|__u?int_as_float)\b"
)


def _replaced(match: re.Match[str]) -> str:
    text = match.group()
    if match.lastgroup == "literal":
        digits = text[:-1]
        return digits if any(mark in digits for mark in ".eE") else f"{digits}.0"
    if match.lastgroup == "name":
        if text in _NAMES:
            return _NAMES[text]
        return text[:-1] if text.endswith("f") and text[:-1] in _FUNCTIONS else text
    return text


def _wider(data_type: kernel_pb2.DataType.ValueType) -> kernel_pb2.DataType.ValueType:
    return kernel_pb2.DATA_TYPE_F64 if data_type == kernel_pb2.DATA_TYPE_F32 else data_type


def promoted_problem(problem: problem_pb2.Problem) -> problem_pb2.Problem:
    """Return the problem with every float argument as a double."""
    wide = problem_pb2.Problem()
    wide.CopyFrom(problem)
    for argument in wide.arguments:
        argument.data_type = _wider(argument.data_type)
    return wide


def promoted_kernel(kernel: kernel_pb2.Kernel) -> kernel_pb2.Kernel | None:
    """Return the kernel in double precision; None where its text plainly cannot be promoted."""
    if _NOT_PROMOTABLE.search(kernel.source):
        return None
    wide = kernel_pb2.Kernel()
    wide.CopyFrom(kernel)
    wide.id = ""
    wide.source = _TOKEN.sub(_replaced, kernel.source)
    for launch in wide.launches:
        launch.kernel = _TOKEN.sub(_replaced, launch.kernel)
        if launch.dynamic_shared_memory_bytes:
            launch.dynamic_shared_memory_bytes = f"2 * ({launch.dynamic_shared_memory_bytes})"
        for argument in launch.arguments:
            if argument.HasField("scalar"):
                argument.scalar.data_type = _wider(argument.scalar.data_type)
    for scratch in wide.scratch:
        scratch.data_type = _wider(scratch.data_type)
    return wide

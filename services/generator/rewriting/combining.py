"""Functions that combine the values of a warp's or a block's threads."""

__all__ = ["WARP", "combining_function"]

WARP = 32
"""Threads of a warp."""
_COMBINE = {
    "sum": "value += {other};",
    "product": "value *= {other};",
    "max": "value = max(value, {other});",
    "min": "value = min(value, {other});",
}


def combining_function(name: str, operation: str, of: str, threads: int) -> str:
    """Return a function that combines one value of each thread, for every thread of a warp or block.

    Args:
        name: how it is called.
        operation: sum, product, max or min.
        of: the type of the values.
        threads: 32 for a warp, else all threads of a block, a multiple of 32.
    """
    combine = _COMBINE[operation].format(other="__shfl_xor_sync(0xffffffffu, value, offset)")
    lines = [
        (
            f"// The {operation} of `value` over the {threads} threads of a {'warp' if threads == WARP else 'block'};"
            " every one of them gets it."
        ),
        f"__device__ __forceinline__ {of} {name}({of} value) {{",
        "#pragma unroll",
        "  for (int offset = 16; offset > 0; offset /= 2) {",
        f"    {combine}",
        "  }",
    ]
    if threads > WARP:
        other = _COMBINE[operation].format(other="partial[warp]")
        lines += [
            f"  __shared__ {of} partial[{threads // WARP}];",
            "  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;",
            "  __syncthreads();",
            "  value = partial[0];",
            "#pragma unroll",
            f"  for (int warp = 1; warp < {threads // WARP}; ++warp) {{",
            f"    {other}",
            "  }",
            "  __syncthreads();  // before the next use of `partial`",
        ]
    return "\n".join([*lines, "  return value;", "}", ""])

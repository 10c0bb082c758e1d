"""Kernels of relu's signature that do harm: to themselves, to the process that runs them, or to the compiler."""

from tests.profiler.kernels import RELU_SOURCE

_BOMB = """template <int N, long M> struct Bomb {
  static constexpr long v = Bomb<N - 1, 2 * M>::v + Bomb<N - 1, 2 * M + 1>::v;
};
template <long M> struct Bomb<0, M> { static constexpr long v = M; };
"""


def _before(statement: str, *, declared: str = "") -> str:
    return declared + RELU_SOURCE.replace("if (i < n)", statement + "\n  if (i < n)")


FAULTY: dict[str, tuple[str, set[str], str]] = {
    "device assert": (_before("assert(n < 0);", declared="#include <cassert>\n"), {"WRONG_RESULT"}, "assert"),
    "trap": (_before("if (i == 3) __trap();"), {"WRONG_RESULT"}, "trap"),
    "null pointer": (_before("if (i == 3) *(volatile int*)0 = 1;"), {"MEMORY_FAULT"}, "out-of-bounds"),
    "misaligned": (
        _before("float4 v = *(const float4*)(x + 1); if (v.x + v.y + v.z + v.w == 77.5f) return;"),
        {"MEMORY_FAULT"}, "misaligned",
    ),
    "endless recursion": (
        _before("if (deep(n) == 5) return;", declared="__device__ __noinline__ int deep(int v) "
                "{ volatile int a[64]; a[v & 63] = v; return deep(v + a[v & 63]) + 1; }\n"),
        {"MEMORY_FAULT", "NOT_CHECKABLE_HERE", "TIMED_OUT"}, "",
    ),
    "a lock that a warp cannot take": (
        _before("while (atomicCAS(&lock, 0, 1) != 0) {}", declared="__device__ int lock;\n"),
        {"TIMED_OUT", "RACE"}, "",
    ),
    "waits for a block that never comes": (
        _before("if (blockIdx.x == 0) while (((volatile int*)&flag)[0] == 0) {}", declared="__device__ int flag;\n"),
        {"TIMED_OUT", "RACE"}, "",
    ),
    "two gigabytes of printf": (
        _before('for (int k = 0; k < 100000; k++) printf("%d %d all work and no play\\n", i, k);'),
        {"TIMED_OUT", "NOT_CHECKABLE_HERE", "OK"}, "",
    ),
    "a stack larger than the device": (
        _before("volatile float a[1 << 26]; a[n] = 1; if (a[n + 1] == 5.5f) return;"),
        {"RESOURCE_EXCEEDED", "NOT_CHECKABLE_HERE"}, "",
    ),
    "template recursion": (
        _before("if (Bomb<40, 0>::v == n) return;", declared=_BOMB), {"COMPILE_FAILED", "REJECTED_SOURCE"}, "",
    ),
    "endless constexpr": (
        "__device__ constexpr long spin(long v) { while (true) { v = v * 3 + 1; if (v == 0) return v; } }\n"
        + _before("if (spin(1) == n) return;").replace("if (spin(1)", "constexpr long s = spin(1); if (s"),
        {"COMPILE_FAILED"}, "",
    ),
    "a million lines of macro": (
        "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(A(x)))))))\n" + _before("B(y[0] += 1;)"),
        {"COMPILE_FAILED", "REJECTED_SOURCE"}, "",
    ),
    "reads a device file": ("#include </dev/zero>\n" + RELU_SOURCE, {"REJECTED_SOURCE"}, "/dev/zero"),
    "device heap": (
        _before("if (i == 0) { char* p = (char*)malloc((size_t)1 << 33); if (p) p[0] = 1; }"),
        {"NOT_CHECKABLE_HERE"}, "malloc",
    ),
}  # fmt: skip
"""By name: the source, the verdicts that are right, and a word of the reason."""

HARMLESS = {
    "divides by zero": _before("int q = n / (int)blockIdx.y; if (q == -12345) return;"),
    "shifts too far": _before("unsigned s = 1u << (unsigned)n; if (s == 12345u) return;"),
    "converts what does not fit": _before("int c = (int)(x[0] * 1e30f); if (c == 12345) return;"),
    "sleeps": _before("__nanosleep(100); long long t = clock64(); if (t == -1) return;"),
}
"""What a device shrugs off, and a CPU may not."""

"""What a candidate's text may hold, and what it may not: each entry is one way to get out of device code."""

import pytest

from optiml.cuda.candidate_rules import host_code_violations
from optiml.cuda.parse import parse_cuda

ACCEPTED = {
    "plain kernel": "__global__ void f(float* x) { x[0] = 1; }",
    "headers, constants and structs": """
#include <cuda_fp16.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#define T 16
const int A[2] = {1, 2};
constexpr int sq(int a) { return a * a; }
const int B = sq(3);
__constant__ float c[4];
__device__ float g;
struct alignas(8) P { float a; __device__ P() : a(1) {} __host__ __device__ float b() const { return a; } };
""",
    "templates, pragmas and assembly": """
template <typename U> __device__ U twice(U x) { return x + x; }
__global__ void __launch_bounds__(256, 2) f(float* x) {
#pragma unroll 4
  for (int i = 0; i < 4; i++) asm volatile("add.f32 %0, %0, %0;" : "+f"(x[i]) : : "memory");
}
""",
    "namespaces, lambdas and digit separators": """
namespace n { template <int N> struct Tile { float v[N]; __device__ float& operator[](int i) { return v[i]; } }; }
extern "C" __global__ void f(float* x) {
  extern __shared__ float s[];
  auto l = [&](int i) { return s[i]; };
  x[0] = 1'000.0f + l(1);
}
""",
    "attributes": "struct __attribute__((aligned(16))) V { int a; };\n__device__ __attribute__((noinline)) void g() {}",
    "the word include in a string": '__global__ void f() { printf("do include 1%% more"); }',
    "forbidden words in comments": "// #include <stdio.h> main() {}\n/* __has_include */ __global__ void f() {}",
    "device inline helper": "static __device__ __forceinline__ int h() { return 1; } enum class E { A };",
}
REFUSED = {
    "main": "int main() { return 0; }",
    "host function": "static void h() {}",
    "host template": "template <class T> T q(T x) { return x; }",
    "host function in a namespace": "namespace n { void h() {} }",
    "host function in extern C": 'extern "C" { void h() {} }',
    "host function by a macro": "#define H int hh() { return 1; }\nH",
    "function try block": "inline int h() try { return 1; } catch (...) { return 0; }",
    "constructor of a struct": "struct A { A() {} };",
    "method": "struct A { int f() { return 1; } };",
    "host variable": "static int x = 3;",
    "host array": "int x[] = {1, 2};",
    "host variable in a namespace": "namespace { int z; }",
    "static member": "struct A { static int z; }; int A::z = 4;",
    "global lambda": "auto l = [](int a) { return a; };",
    "dynamic initialiser": "int f(int); const int z = f(1);",
    "absolute include": '#include "/etc/passwd"',
    "include upwards": "#include <../x.h>",
    "host header": "#include <iostream>",
    "include by a macro": "#define I <cuda.h>\n#include I",
    "include with text behind": '#include <cuda.h> "x"',
    "include between comments": '/* a */ # /* b */ include /* c */ "x"',
    "include with a split word": '#incl\\\nude "x"',
    "include_next": "#include_next <cuda.h>",
    "import": '#import "x"',
    "embed": '#embed "x"',
    "line": '#line 3 "x"',
    "has_include": "#if __has_include(<x>)\n#endif",
    "digraph": "%:include <cuda.h>",
    "trigraph": "??=include <x>",
    "module": "import std;",
    "pragma": '#pragma comment(lib, "x")',
    "pragma operator": '_Pragma("once")',
    "attribute constructor": "__attribute__((constructor)) __device__ void f() {}",
    "attribute by a macro": "#define C constructor\n__attribute__((C)) __device__ void f() {}",
    "attribute section": '__attribute__((section("x"))) __device__ int f;',
    "incbin": '__global__ void f() { asm(".incbin \\"x\\""); }',
    "incbin in two strings": '__global__ void f() { asm(".inc" "bin x"); }',
    "incbin with an escape": '__global__ void f() { asm(".in\\143bin x"); }',
    "incbin in a raw string": '__global__ void f() { asm(R"(.incbin "x")"); }',
    "assembler include": '__global__ void f() { asm(" . include x"); }',
    "assembly by a macro": "#define S(x) #x\n__global__ void f() { asm(S(.in) S(cbin)); }",
    "launch": "__global__ void k() {}\n__device__ void g() { k<<<1, 1>>>(); }",
    "host only": "__host__ void f();",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_device_code_is_accepted(name: str) -> None:
    source = ACCEPTED[name]
    assert host_code_violations(source, parse_cuda(source)) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_device_code_is_refused(name: str) -> None:
    source = REFUSED[name]
    assert host_code_violations(source, parse_cuda(source))


def test_a_violation_names_its_line() -> None:
    source = "// one\n/* two\n three */\n#define A 1 \\\n  + 2\nint main() { return 0; }\n"
    assert host_code_violations(source, parse_cuda(source))[0].startswith("line 6: 'main' is host code")


def test_a_forbidden_directive_names_its_line_after_spliced_lines() -> None:
    source = "#define A 1 \\\n  + 2\n\n#include <iostream>\n"
    assert host_code_violations(source, parse_cuda(source))[0].startswith("line 4: #include <iostream>")

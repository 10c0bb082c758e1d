"""The device-only part of a file: what is kept, in the user's words, and that it compiles."""

from pathlib import Path

import pytest

from optiml.cuda.candidate_rules import host_code_violations
from optiml.cuda.device_code import device_code, pieces
from optiml.cuda.parse import parse_cuda
from optiml.errors import InvalidArgumentError

from .conftest import Compile


def _device(text: str, *kernels: str, directory: Path | None = None) -> str:
    parsed = parse_cuda(text, directory=directory)
    return device_code(parsed, frozenset(kernels or ("f",)), origin="a.cu", directory=directory)


def test_the_pieces_together_are_the_file() -> None:
    text = "// é\n#include <cmath>\nnamespace n {\nint a, b;\n}  // n\n#if 1\n__global__ void f() {}\n#endif\nint c;\n"
    joined = "".join(piece.text for piece in pieces(parse_cuda(text)))
    assert text.startswith(joined)
    assert not text[len(joined) :].strip()


def test_host_code_is_left_out_and_the_users_words_stay() -> None:
    text = "#include <vector>\n// Fast.\n__global__ void f(int* x) { *x = 1; }  // yes\nint main() { return 0; }\n"
    assert _device(text) == "// Fast.\n__global__ void f(int* x) { *x = 1; }  // yes\n"


def test_everything_that_a_kernel_needs_is_kept(compile_device_code: Compile) -> None:
    source = _device("""\
#include <cstdio>
#include <cuda_fp16.h>
#define TILE 16
#define AREA (TILE * TILE)
#define UNUSED 3
typedef float real;
struct Pair { real a, b; };
enum Mode { SUM, PRODUCT };
constexpr int WIDTH = 4;
static const int TWO = 2;
__constant__ real weights[WIDTH];
__device__ int counter;
template <typename T> __device__ T twice(T x) { return TWO * x; }
__host__ __device__ inline real half_of(real x) { return x / 2; }
void on_the_host() { printf("%d", UNUSED); }
__global__ void f(Pair* p, Mode m, __half* h) {
  __shared__ real s[AREA];
  s[threadIdx.x] = half_of(twice(p->a)) * weights[1];
  if (m == SUM) atomicAdd(&counter, 1);
  h[0] = __float2half(s[0]);
}
int main() { on_the_host(); }
""")
    assert "on_the_host" not in source
    assert "UNUSED" not in source
    assert host_code_violations(source, parse_cuda(source)) == []
    compile_device_code(source)


def test_namespaces_keep_their_braces(compile_device_code: Compile) -> None:
    source = _device("""\
namespace a { namespace b {
__device__ int one() { return 1; }
void host() {}
} }
namespace c { void only_host() {} }
using namespace a;
namespace { __global__ void f(int* x) { *x = b::one(); } }
""")
    assert "only_host" not in source
    assert source.count("{") == source.count("}")
    compile_device_code(source)


def test_an_extern_c_kernel_is_kept() -> None:
    assert _device('extern "C" __global__ void f() {}\nint main() {}') == 'extern "C" __global__ void f() {}\n'


def test_conditions_are_kept_only_around_device_code(compile_device_code: Compile) -> None:
    source = _device(
        "#ifdef __linux__\n#include <unistd.h>\n#endif\n"
        "#ifndef N\n#define N 4\n#endif\n__global__ void f(int* x) { *x = N; }"
    )
    assert "__linux__" not in source
    compile_device_code(source)


def test_names_of_cooperative_groups_stay_visible(compile_device_code: Compile) -> None:
    source = _device(
        "#include <cooperative_groups.h>\nusing namespace std;\nnamespace cg = cooperative_groups;\n"
        "__global__ void f() { cg::this_thread_block().sync(); }"
    )
    assert "std" not in source
    compile_device_code(source)


def test_a_users_header_is_written_out(tmp_path: Path, compile_device_code: Compile) -> None:
    (tmp_path / "inner.cuh").write_text(
        "#pragma once\n#include <vector>\n__device__ int one() { return 1; }\nvoid host() {}\n"
    )
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n#include "inner.cuh"\n#define TWO (2 * one())\n')
    source = _device('#include "outer.cuh"\n__global__ void f(int* x) { *x = TWO; }', directory=tmp_path)
    assert source.count("one() { return 1; }") == 1
    assert "host" not in source
    assert "#include" not in source
    compile_device_code(source)


def test_a_missing_header_that_the_kernel_needs_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^a\.cu:2: header 'gone.h' .* needs 'one' \(line 3\)"):
        _device('// x\n#include "gone.h"\n__global__ void f(int* x) { *x = one(); }', directory=tmp_path)


def test_a_missing_header_of_the_host_is_no_trouble(tmp_path: Path) -> None:
    text = '#include "helper_cuda.h"\n__global__ void f(int* x) { *x = 1; }\nint main() { checkCudaErrors(1); }'
    assert _device(text, directory=tmp_path) == "__global__ void f(int* x) { *x = 1; }\n"


@pytest.mark.parametrize("name", ["../secret.h", "/etc/hostname", "link.h"])
def test_a_header_elsewhere_is_not_read(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret.h").write_text("#define SECRET 42\n")
    (folder / "link.h").symlink_to(tmp_path / "secret.h")
    assert "42" not in _device(
        f'#include "{name}"\n__global__ void f(int* x) {{ *x = 1; }} // SECRET', directory=folder
    )


def test_host_code_that_the_parser_cannot_read_is_left_out() -> None:
    text = "@@ nonsense { int x; }\n__global__ void f(int* x) { *x = 1; }\n"
    assert "nonsense" not in _device(text)


def test_a_typedef_of_a_nameless_struct_stays_whole(compile_device_code: Compile) -> None:
    source = _device(
        "#include <cstdio>\ntypedef struct { int width; float* elements; } Matrix;\n"
        "__global__ void f(const Matrix, int);\n"
        "int main() {}\n__global__ void f(const Matrix A, int n) { A.elements[n] = A.width; }\n"
    )
    assert source.startswith("typedef struct {")
    compile_device_code(source)

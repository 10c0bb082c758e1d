"""Bad source files: one line that says what is wrong, where, and how to mend it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml.cuda.importer import import_file
from optiml.cuda.submission import draft_problem_file
from optiml.errors import InvalidArgumentError

from .conftest import EXAMPLES

KERNEL = "__global__ void f(float* x) { x[threadIdx.x] = 1; }\n"
COPY = "__global__ void {}(const float* x, float* y) {{ y[0] = x[0]; }}\n"
TWO = COPY.format("a") + COPY.format("b")
MAIN = "int main() {{ float *x, *y; cudaMalloc(&x, 64); cudaMalloc(&y, 64);\n{} }}\n"

BAD = {
    "empty": ("", r"^a\.cu: is empty; give a CUDA source file"),
    "space only": (" \n\t\n", r"^a\.cu: is empty"),
    "binary": ("\x7fELF\0\0\0", r"^a\.cu: is not text; give a CUDA source file"),
    "ten megabytes": ("int x;\n" * 1_500_000, r"^a\.cu: has 10500000 characters, .* put the kernel"),
    "endless spliced lines": ("int x;\n" + "\\\n" * 100_000, r"^a\.cu:2: hundreds of lines"),
    "no kernel": ("int main() { return 0; }\n", r"^a\.cu: no kernel in it; OptiML optimises __global__"),
    "host library": ('#include <cstdio>\nvoid f() { puts("__global__"); }\n', r"^a\.cu: no kernel in it"),
    "python": ("import torch\ndef f(x):\n    return x\n", r"^a\.cu:1: .*; this is not CUDA"),
    "prose": ("Please make my kernel fast.\n", r"^a\.cu:1: .*; this is not CUDA"),
    "missing semicolon": ("__global__ void f(int* x) {\n  int i = 0\n  x[i] = 1;\n}\n", r"^a\.cu:2: expected ';'.*; m"),
    "missing brace": (KERNEL + "__global__ void g(float* x) {\n  x[0] = 1;\n", r"^a\.cu:4?3?: .*expected '}'.*"),
    "two kernels, no launch": (TWO, r"^a\.cu: 2 kernels and no launch; name one with --kernel: a, b"),
    "two versions": (
        TWO + MAIN.format("a<<<1, 1>>>(x, y);\nb<<<1, 1>>>(x, y);"),
        r"^a\.cu: launches that each write 'y' anew: a \(line 4\), b \(line 5\); name one with --kernel",
    ),
    "launches under conditions": (
        TWO + MAIN.format("if (x) a<<<1, 1>>>(x, y); else b<<<1, 1>>>(y, x);"),
        r"^a\.cu: launches under conditions: a \(line 4\), b \(line 4\); name one",
    ),
    "kernel that launches": (
        "__global__ void g() {}\n__global__ void f() {\n  g<<<1, 1>>>();\n}\nint main() { f<<<1, 1>>>(); }\n",
        r"^a\.cu:3: kernel 'f' launches kernels itself; .* name another",
    ),
    "missing header": (
        '#include "mine.h"\n__global__ void f(float* x) { x[0] = ONE; }\n',
        r"^a\.cu:1: header 'mine.h' is not beside the file, and the kernel needs 'ONE' \(line 2\); put the header",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_source_gives_one_clear_line(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        import_file(text, "a.cu")
    assert "\n" not in str(caught.value)


def test_an_unknown_kernel_is_named_with_those_that_are_there() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^a\.cu: no kernel 'c' in it \(there are: a, b\)"):
        import_file(TWO, "a.cu", "c")


def test_naming_a_kernel_resolves_two_versions() -> None:
    text = TWO + MAIN.format("a<<<1, 1>>>(x, y);\nb<<<1, 1>>>(x, y);")
    imported = import_file(text, "a.cu", "b")
    assert [launch.kernel for launch in imported.kernel.launches] == ["b"]
    assert "void a(" not in imported.kernel.source


@pytest.mark.parametrize("name", ["matmul", "softmax", "layer_norm"])
def test_windows_line_ends_change_nothing(name: str) -> None:
    text = (EXAMPLES / f"{name}.cu").read_text()
    plain = import_file(text, "a.cu")
    windows = import_file(text.replace("\n", "\r\n"), "a.cu")
    assert windows.problem.arguments == plain.problem.arguments
    assert windows.kernel.launches == plain.kernel.launches
    assert windows.kernel.source.replace("\r\n", "\n") == plain.kernel.source


def test_letters_of_more_than_one_byte_change_nothing() -> None:
    text = (EXAMPLES / "matmul.cu").read_text()
    odd = text.replace("// C = A * B", "// 行列積 — ∑ₖ 🚀").replace("int row =", "/* é */ int row =")
    odd = odd.replace("dim3 block(16, 16);", "/* ü */ dim3 block(/* ß */ 16, 16);")
    plain, imported = import_file(text, "a.cu"), import_file(odd, "a.cu")
    assert imported.kernel.launches == plain.kernel.launches
    assert "/* é */ int row" in imported.kernel.source


def test_a_byte_order_mark_is_no_trouble() -> None:
    text = (EXAMPLES / "relu.cu").read_text()
    assert import_file("\ufeff" + text, "a.cu").kernel.launches == import_file(text, "a.cu").kernel.launches


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(["matmul", "softmax", "maxpool3d", "cross_entropy"]))
def test_a_damaged_file_is_read_or_refused_but_never_crashes(seed: int, name: str) -> None:
    generator = random.Random(seed)
    text = (EXAMPLES / f"{name}.cu").read_text()
    for _ in range(generator.randint(1, 6)):
        at = generator.randrange(len(text))
        cut = generator.randint(0, 40)
        text = (
            text[:at]
            + generator.choice(["", "{", "}", "(", ";", "#", "\\\n", '"', "/*", "é", "<<<"])
            + text[at + cut :]
        )
    try:
        imported = import_file(text, "a.cu")
    except InvalidArgumentError as error:
        assert str(error).startswith("a.cu:")
    else:
        assert draft_problem_file(imported)


@pytest.mark.slow
def test_a_large_file_is_read_in_time() -> None:
    text = "".join(KERNEL.replace("f(", f"f{index}(") for index in range(8000)) + "int main() { f7<<<1, 32>>>(0); }\n"
    imported = import_file(text, "a.cu")
    assert imported.kernel.source.count("__global__") == 1

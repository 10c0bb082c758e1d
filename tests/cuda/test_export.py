"""The patch applies with the real `patch`, and the program compiles with the real nvcc."""

import shutil
import subprocess
from pathlib import Path

import pytest

from optiml.cuda.exporter import Export, export
from optiml.cuda.importer import Imported, import_file
from optiml.v1 import kernel_pb2

from .conftest import EXAMPLES, Compile

F32 = kernel_pb2.DATA_TYPE_F32
SCALE = """\
#include <cstdio>
__device__ float twice(float x) { return 2 * x; }
// Doubles.
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]);
}

int main() {
  const int n = 1 << 20;
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  scale<<<(n + 255) / 256, 256>>>(a, b, n);
  cudaDeviceSynchronize();
  return 0;
}
"""
FASTER_SCALE = """\
__device__ float twice(float x) { return x + x; }
__global__ void scale(const float* x, float* y, int n) {
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 128 * gridDim.x) y[i] = twice(x[i]);
}
"""


def _import(text: str, **options: str) -> Imported:
    return import_file(text, "scale.cu", **options)


def _best(imported: Imported, source: str, **launch: object) -> kernel_pb2.Kernel:
    best = kernel_pb2.Kernel()
    best.CopyFrom(imported.kernel)
    best.source = source
    for name, value in launch.items():
        best.launches[0].ClearField(name)  # type: ignore[arg-type]
        best.launches[0].MergeFrom(kernel_pb2.Launch(**{name: value}))  # type: ignore[arg-type]
    return best


def _patched(tmp_path: Path, before: str, exported: Export) -> str:
    """Apply the patch to the user's file as a person would, and return the result."""
    if shutil.which("patch") is None:
        pytest.skip("no patch on this machine")
    file = tmp_path / "scale.cu"
    file.write_bytes(before.encode())
    done = subprocess.run(
        ["patch", "-p1", "--binary"], cwd=tmp_path, input=exported.patch.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + exported.patch
    return file.read_bytes().decode()


def test_an_unchanged_kernel_gives_an_empty_patch() -> None:
    imported = _import(SCALE)
    exported = export(imported, imported.kernel, "scale.cu")
    assert (exported.source, exported.patch) == (SCALE, "")


def test_the_patch_leads_to_the_exported_program(tmp_path: Path) -> None:
    imported = _import(SCALE)
    exported = export(imported, _best(imported, FASTER_SCALE, grid=["132 * 8"], block=["128"]), "scale.cu")
    assert _patched(tmp_path, SCALE, exported) == exported.source
    assert exported.notes == []


def test_kernel_and_launch_are_replaced_and_the_rest_stays(compile_program: Compile) -> None:
    imported = _import(SCALE)
    exported = export(imported, _best(imported, FASTER_SCALE, grid=["ceil_div(n, 512)"], block=["128"]), "scale.cu")
    assert "scale<<<(n + 511) / 512, 128>>>(a, b, n);" in exported.source
    assert "return 2 * x" not in exported.source
    assert exported.source.startswith("#include <cstdio>\n")
    compile_program(exported.source)


def test_a_helper_that_other_code_uses_stays_and_the_new_one_gets_another_name(compile_program: Compile) -> None:
    other = "__global__ void other(float* x) { x[0] = twice(x[0]); }\n"
    imported = _import(SCALE.replace("// Doubles.", other), kernel="scale")
    exported = export(imported, _best(imported, FASTER_SCALE), "scale.cu")
    assert "return 2 * x" in exported.source
    assert "twice_optimized(x[i])" in exported.source
    compile_program(exported.source)


def test_a_kernel_that_the_host_names_elsewhere_stays(compile_program: Compile) -> None:
    text = SCALE.replace("  scale<<<", "  cudaFuncSetCacheConfig(scale, cudaFuncCachePreferL1);\n  scale<<<")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE), "scale.cu")
    assert "scale_optimized<<<(n + 255) / 256, 256>>>(a, b, n);" in exported.source
    compile_program(exported.source)


def test_every_place_that_launches_the_same_is_rewritten(compile_program: Compile) -> None:
    launch = "scale<<<(n + 255) / 256, 256>>>(a, b, n);"
    text = SCALE.replace(launch, f"{launch}\n  for (int i = 0; i < 10; i++) {launch}")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, grid=["1056"], block=["128"]), "scale.cu")
    assert exported.source.count("scale<<<1056, 128>>>(a, b, n);") == 2
    compile_program(exported.source)


def test_scratch_and_a_second_launch_are_put_around_the_launch(compile_program: Compile, tmp_path: Path) -> None:
    imported = _import(SCALE)
    source = """\
__global__ void first(const float* x, float* t, int n) {
  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) t[i] = x[i];
}
__global__ void second(const float* t, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = t[i] * 2;
}
"""
    best = kernel_pb2.Kernel(source=source, scratch=[kernel_pb2.Scratch(name="t", data_type=F32, elements="n + 1")])
    for name, buffers in (("first", ("x", "t")), ("second", ("t", "y"))):
        launch = best.launches.add(kernel=name, grid=["ceil_div(n, 256)"], block=["256"])
        for buffer in buffers:
            launch.arguments.add(buffer=buffer)
        launch.arguments.add(scalar=kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression="n"))
    exported = export(imported, best, "scale.cu")
    body = exported.source.partition("int main")[2]
    order = [body.index(x) for x in ("cudaMalloc(&t", "first<<<", "second<<<", "cudaFree(t);")]
    assert order == sorted(order)
    assert _patched(tmp_path, SCALE, exported) == exported.source
    compile_program(exported.source)


def test_much_shared_memory_is_asked_for(compile_program: Compile) -> None:
    imported = _import(SCALE)
    exported = export(imported, _best(imported, FASTER_SCALE, dynamic_shared_memory_bytes="98304"), "scale.cu")
    assert "cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304);" in exported.source
    compile_program(exported.source)


def test_a_cooperative_launch_is_written_out(compile_program: Compile) -> None:
    imported = _import(SCALE)
    exported = export(imported, _best(imported, FASTER_SCALE, cooperative=True), "scale.cu")
    assert "cudaLaunchCooperativeKernel((void*)scale, " in exported.source
    compile_program(exported.source)


def test_the_stream_is_kept(compile_program: Compile) -> None:
    text = SCALE.replace("256>>>", "256, 0, stream>>>").replace("float *a", "cudaStream_t stream = 0;\n  float *a")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert "<<<(n + 255) / 256, 128, 0, stream>>>" in exported.source
    compile_program(exported.source)


def test_a_launch_inside_a_macro_is_rewritten_in_place(compile_program: Compile) -> None:
    text = SCALE.replace(
        "  scale<<<(n + 255) / 256, 256>>>(a, b, n);", "  RUN((scale<<<(n + 255) / 256, 256>>>(a, b, n)));"
    )
    text = text.replace(
        "#include <cstdio>", "#include <cstdio>\n#define RUN(call) do { call; cudaGetLastError(); } while (0)"
    )
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert "RUN((scale<<<(n + 255) / 256, 128>>>(a, b, n)));" in exported.source
    compile_program(exported.source)


def test_what_cannot_be_mapped_back_is_said_and_the_program_still_compiles(
    compile_program: Compile, tmp_path: Path
) -> None:
    text = SCALE.replace(
        "int main() {",
        "void run(float* a, float* b, size_t m) {\n  scale<<<(m + 255) / 256, 256>>>(a, b, m);\n}\nint main() {",
    )
    text = text.replace("  scale<<<(n + 255) / 256, 256>>>(a, b, n);", "  run(a, b, n * 1);")
    imported = _import(text)
    best = _best(imported, FASTER_SCALE, cooperative=True)
    best.launches[0].grid[0] = "ceil_div(q, 256)"  # no such thing where the launch is
    exported = export(imported, best, "scale.cu")
    assert len(exported.notes) == 1
    assert exported.patch.startswith("# the launches could not be rewritten (the host has no 'q'")
    assert "// Launch it so:" in exported.source
    assert _patched(tmp_path, text, exported) == exported.source
    compile_program(exported.source)


def test_a_file_without_launch_gets_the_kernel_and_a_comment_that_shows_it() -> None:
    text = SCALE.partition("int main")[0]
    imported = _import(text)
    best = _best(imported, FASTER_SCALE, grid=["ceil_div(n, 128)"], block=["128"])
    exported = export(imported, best, "scale.cu")
    assert "//   scale<<<(n + 127) / 128, 128>>>(x, y, n);" in exported.source


def test_windows_line_ends_stay(tmp_path: Path) -> None:
    text = SCALE.replace("\n", "\r\n")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert exported.source.count("\n") == exported.source.count("\r\n")
    assert _patched(tmp_path, text, exported) == exported.source


def test_letters_of_more_than_one_byte_do_not_shift_the_edit(compile_program: Compile) -> None:
    text = SCALE.replace("// Doubles.", "// Verdoppelt — größer, 倍, 🚀").replace("int main", "/* ✓ */ int main")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert "/* ✓ */ int main() {" in exported.source
    compile_program(exported.source)


def test_a_form_feed_does_not_break_the_patch(tmp_path: Path) -> None:
    text = SCALE.replace("// Doubles.", "\f\n// Doubles.\u2028")
    imported = _import(text)
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert _patched(tmp_path, text, exported) == exported.source


def test_a_file_without_a_last_line_end_is_patched(tmp_path: Path) -> None:
    imported = _import(SCALE.rstrip("\n"))
    exported = export(imported, _best(imported, FASTER_SCALE, block=["128"]), "scale.cu")
    assert _patched(tmp_path, SCALE.rstrip("\n"), exported) == exported.source


def test_new_headers_are_included(compile_program: Compile) -> None:
    source = FASTER_SCALE.replace("x + x", "__half2float(__float2half(x + x))")
    imported = _import(SCALE)
    exported = export(imported, _best(imported, "#include <cuda_fp16.h>\n" + source), "scale.cu")
    assert exported.source.count("#include <cuda_fp16.h>") == 1
    compile_program(exported.source)


def test_a_macro_that_the_host_uses_keeps_its_value(compile_program: Compile) -> None:
    text = (
        SCALE.replace("// Doubles.", "#define BLOCK 256")
        .replace("256, 256>>>", "BLOCK, BLOCK>>>")
        .replace("blockDim.x", "BLOCK")
    )
    text = text.replace("cudaDeviceSynchronize();", 'printf("%d", BLOCK);')
    imported = _import(text)
    source = imported.kernel.source.replace("#define BLOCK 256", "#define BLOCK 64")
    exported = export(imported, _best(imported, source, grid=["ceil_div(n, 64)"], block=["64"]), "scale.cu")
    assert "#define BLOCK 256" in exported.source
    assert "#define BLOCK_optimized 64" in exported.source
    compile_program(exported.source)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.cu")))
def test_the_launch_of_every_example_can_be_rewritten(name: str, compile_program: Compile, tmp_path: Path) -> None:
    text = (EXAMPLES / f"{name}.cu").read_text()
    imported = import_file(text, "scale.cu")
    best = kernel_pb2.Kernel()
    best.CopyFrom(imported.kernel)
    base = best.launches[0].kernel.partition("<")[0]
    best.source = best.source.replace(f"void {base}(", f"void __launch_bounds__(1024) {base}(")
    best.launches[0].grid[0] = f"min({best.launches[0].grid[0]}, 1000000) + 0"
    exported = export(imported, best, "scale.cu")
    assert exported.notes == []
    assert _patched(tmp_path, text, exported) == exported.source
    compile_program(exported.source)

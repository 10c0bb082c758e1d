"""Host programs as people write them: each is read rightly and put back whole, or refused with what to write."""

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from optiml.cuda.exporter import export
from optiml.cuda.importer import Imported, import_file
from optiml.cuda.submission import submission
from optiml.errors import InvalidArgumentError
from optiml.v1 import kernel_pb2

FOLDER = Path(__file__).parent / "host_programs"


@dataclass(frozen=True)
class Read:
    """What is to be read off a program."""

    kernels: list[str]
    grid: list[str]
    block: list[str]
    shapes: dict[str, list[str]]
    time: dict[str, int]
    by_hand: str = ""
    """What the note says if the launch has to be changed by hand."""
    scratch: list[str] = field(default_factory=list)


READ = {
    "ceil_div_macro": Read(
        ["transpose"], ["ceil_div(cols, 32)", "ceil_div(rows, 32)"], ["32", "32"],
        {"in_": ["rows", "cols"], "out": ["rows", "cols"]}, {"rows": 2048, "cols": 1024},
    ),
    "device_globals": Read(
        ["weighted"], ["ceil_div(n, 192)"], ["192"], {"in_": ["n"], "out": ["n"]}, {"n": 300000}
    ),
    "dynamic_shared": Read(
        ["reverse_blocks"], ["ceil_div(n, 256)"], ["256"], {"in_": ["n"], "out": ["n"]}, {"n": 1 << 20}
    ),
    "extern_c": Read(["saxpy"], ["ceil_div(n, 512)"], ["512"], {"x": ["n"], "y": ["n"]}, {"n": 12345}),
    "iterations": Read(["jacobi"], ["ceil_div(n, 256)"], ["256"], {"in_": ["n"], "out": ["n"]}, {"n": 1 << 20}),
    "kernel_macro": Read(["cube"], ["ceil_div(n, 256)"], ["256"], {"in_": ["n"], "out": ["n"]}, {"n": 1 << 20}),
    "launch_kernel_call": Read(
        ["clamp"], ["ceil_div(n, 256)"], ["256"], {"in_": ["n"], "out": ["n"]}, {"n": 100000}
    ),
    "launch_macro": Read(
        ["shift"], ["ceil_div(n, 256)"], ["256"], {"x": ["n"], "y": ["n"]}, {"n": 1 << 20},
        by_hand="line 19: the launch is no statement of its own",
    ),
    "managed": Read(["add"], ["ceil_div(N, 256)"], ["256"], {"x": ["N"], "y": ["N"]}, {"N": 1 << 20}),
    "namespaces": Read(
        ["image::detail::to_gray"], ["ceil_div(width, 16)", "ceil_div(height, 16)"], ["16", "16"],
        {"rgb": ["width", "height", "3"], "gray": ["width", "height"]}, {"width": 1920, "height": 1080},
    ),
    "overloads": Read(["twice"], ["ceil_div(n, 256)"], ["256"], {"x": ["n"], "y": ["n"]}, {"n": 1 << 20}),
    "several_kernels": Read(
        ["fill", "column_sums"], ["ceil_div(rows * cols, 256)"], ["256"], {"sums": ["cols"]},
        {"rows": 4096, "cols": 2048}, scratch=["rows * cols"],
    ),
    "stream_async": Read(["square"], ["ceil_div(n, 128)"], ["128"], {"in_": ["n"], "out": ["n"]}, {"n": 500000}),
    "template_block": Read(
        ["sum<128>"], ["ceil_div(n, 128)"], ["128"], {"in_": ["n"], "out": ["ceil_div(n, 128)"]}, {"n": 1000000}
    ),
    "template_type": Read(["axpy<double>"], ["ceil_div(n, 256)"], ["256"], {"x": ["n"], "y": ["n"]}, {"n": 1 << 20}),
    "timed_loop": Read(
        ["scale_rows"], ["ceil_div(N, 128)", "N"], ["128"], {"x": ["N", "N"], "s": ["N"], "y": ["N", "N"]}, {"N": 4096}
    ),
    "wrapper": Read(["add"], ["ceil_div(n, 256)"], ["256"], {"a": ["n"], "b": ["n"], "c": ["n"]}, {"n": 1 << 20}),
}  # fmt: skip

REFUSED = {
    "argv_only": r":9: sizes\.time\[0\]\.n: cannot tell the value of 'atoi\(argv\[1\]\)'; write its value",
    "constant_filled": r":22: launch: the host fills 'taps', .*; pass taps as a const pointer argument",
    "device_counter": r":18: launch: host and kernel share the variable 'above': .*; pass above as a pointer argument",
    "functor": r":18: launch: parameter 'f' has type 'Square'; .*; pass its parts as numbers and pointers",
    "managed_global": r":13: launch: host and kernel share the variable 'values': .*; pass values as a pointer",
    "pointer_offset": r":12: launch: cannot tell which buffer 'x \+ b \* n' is; pass the buffer itself",
    "struct_by_value": r":18: launch: parameter 'image' has type 'Image'; .*; pass its parts as numbers and pointers",
}


def _imported(name: str) -> Imported:
    path = next(FOLDER.rglob(f"{name}.cu"))
    return import_file(path.read_bytes().decode(), path.name, directory=path.parent)


def test_every_program_is_tried() -> None:
    assert {path.stem for path in FOLDER.rglob("*.cu")} == READ.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", READ)
def test_a_program_is_read_as_its_author_meant_it(name: str) -> None:
    wanted = READ[name]
    handed_in = submission(_imported(name))
    first, problem = handed_in.kernel.launches[0], handed_in.problem
    assert [launch.kernel for launch in handed_in.kernel.launches] == wanted.kernels
    assert (list(first.grid), list(first.block)) == (wanted.grid, wanted.block)
    assert {a.name: list(a.shape) for a in problem.arguments if a.shape} == wanted.shapes
    assert problem.time[0].parameters == wanted.time
    assert [scratch.elements for scratch in handed_in.kernel.scratch] == wanted.scratch


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_told_with_its_line_and_what_to_write(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(name) + r"\.cu" + REFUSED[name]) as caught:
        submission(_imported(name))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc") or not shutil.which("patch"), reason="needs nvcc and patch on the path")
@pytest.mark.parametrize("launches", [1, 2])
@pytest.mark.parametrize("name", READ)
def test_an_edited_kernel_is_put_back_and_compiles(name: str, launches: int, tmp_path: Path) -> None:
    imported = _imported(name)
    best = _edited(imported, launches)
    exported = export(imported, best, f"{name}.cu")
    assert len(exported.notes) == bool(READ[name].by_hand)
    assert READ[name].by_hand in "".join(exported.notes)
    assert "__launch_bounds__(1024)" in exported.source
    path = next(FOLDER.rglob(f"{name}.cu"))
    shutil.copytree(path.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "best.patch").write_bytes(exported.patch.encode())
    _run(tmp_path, "patch", "-p1", "--binary", "-i", "best.patch")
    assert (tmp_path / path.name).read_bytes().decode() == exported.source
    _run(tmp_path, "nvcc", "-std=c++17", "-arch=sm_90", "-c", path.name, "-o", "program.o")


def _edited(imported: Imported, launches: int) -> kernel_pb2.Kernel:
    """Return the kernel as an edit leaves it: another text, another grid, and perhaps scratch and one more launch."""
    best = kernel_pb2.Kernel()
    best.CopyFrom(imported.kernel)
    best.source = re.sub(r"(__global__\s+)void", r"\1void __launch_bounds__(1024)", best.source)
    best.launches[0].grid[0] = f"min({best.launches[0].grid[0]}, 1000000) + 0"
    if launches > 1 and len(best.launches) == 1:
        best.launches.append(best.launches[-1])
        size = best.launches[0].grid[0]
        best.scratch.add(name="partial", data_type=kernel_pb2.DATA_TYPE_F32, elements=f"{size} + 1")
    return best


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

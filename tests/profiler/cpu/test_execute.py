"""Building and launching: wrong input gives one clear error; memory behaves as the device's does."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from services.profiler.cpu.build import BuildFailed, build
from services.profiler.cpu.execute import DeviceMemory, Program
from tests.profiler.cpu.conftest import KERNELS, Device


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "has 3 parameters, 0 arguments"),
        ([np.int64(0), np.int64(0), np.int64(3)], "argument 2 of relu4 has 8 bytes, the parameter has 4"),
        ([np.float32(0), np.int64(0), np.int32(3)], "argument 0 of relu4 has 4 bytes, the parameter has 8"),
    ],
)
def test_wrong_arguments_are_told(device: Device, arguments: list[np.generic], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        device.run("relu4", 1, 32, arguments)


@pytest.mark.parametrize(
    ("grid", "block", "options", "message"),
    [
        (0, 32, {}, "grid"),
        (1, (1, 1, 65), {}, "block"),
        (1, (64, 32), {}, "2048 threads"),
        (1, 32, {"dynamic_shared_bytes": 300_000}, "300000 of dynamic"),
        (1, 32, {"order": "sideways"}, "sideways"),
        (2, 32, {"blocks": [2]}, "block sample"),
    ],
)
def test_impossible_launches_are_told(
    device: Device, grid: object, block: object, options: dict[str, object], message: str
) -> None:
    arguments = [device.output(512), device.output(512), np.int32(0)]
    with pytest.raises(ValueError, match=message):
        device.run("relu4", grid, block, arguments, **options)


def test_launch_bounds_are_kept(device: Device) -> None:
    assert device.run("bounded", 1, 64, [device.output(256)]).status == "ok"
    with pytest.raises(ValueError, match="bounded takes at most 64"):
        device.run("bounded", 1, 65, [device.output(512)])


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_enormous_grid_of_a_kernel_without_loops_times_out(device: Device, order: str) -> None:
    result = device.run("idle", (2**31 - 1, 65535, 65535), 32, [], time_limit_s=0.2, order=order, check=False)
    assert result.status == "timed_out"
    assert result.blocks_run > 0


def test_unknown_kernel_is_told(device: Device) -> None:
    with pytest.raises(ValueError, match="no kernel 'nothing'; the module has matmul_naive"):
        device.run("nothing", 1, 32, [])


def test_static_shared_memory_is_known(device: Device) -> None:
    assert device.program.static_shared_bytes("matmul_tiled") == 2 * 16 * 16 * 4
    assert device.program.static_shared_bytes("relu4") == 0


def test_file_that_is_no_module_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"nonsense")
    with pytest.raises(OSError, match=r"x\.so"):
        Program(tmp_path / "x.so", DeviceMemory(1 << 20))


def test_compiler_that_is_missing_is_told(
    compile_ptx: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = compile_ptx(KERNELS / "counted.cu")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match=r"g\+\+ is not installed"):
        build(text, tmp_path / "x.so", cache=tmp_path / "cache")
    assert not (tmp_path / "x.so").exists()


def test_compiler_that_takes_too_long_is_stopped(compile_ptx: Callable[[Path], str], tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"longer than 0\.001 s"):
        build(compile_ptx(KERNELS / "counted.cu"), tmp_path / "x.so", cache=tmp_path, time_limit_s=0.001)


@pytest.mark.slow
def test_two_builds_at_once_share_an_empty_cache(compile_ptx: Callable[[Path], str], tmp_path: Path) -> None:
    text = compile_ptx(KERNELS / "counted.cu")
    jobs = [
        threading.Thread(target=build, args=(text, tmp_path / f"{i}.so"), kwargs={"cache": tmp_path / "cache"})
        for i in range(2)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    for i in range(2):
        assert "strided" in Program(tmp_path / f"{i}.so", DeviceMemory(1 << 20)).entries
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".o"]


def test_buffers_are_apart_and_zero() -> None:
    memory = DeviceMemory(1 << 24)
    first, second = memory.allocate(100), memory.allocate(1)
    assert first.address % 256 == second.address % 256 == 0
    assert second.address - (first.address + 100) >= 4096
    assert not first.view.any()
    first.view[:] = 7
    first.free()
    second.free()
    assert not memory.allocate(100).view.any()


def test_full_memory_is_told() -> None:
    memory = DeviceMemory(1 << 20)
    with pytest.raises(MemoryError, match="2097152 bytes do not fit"):
        memory.allocate(1 << 21)


def test_written_bytes_are_known_after_a_checked_launch(device: Device) -> None:
    y = device.output(4 * 4 * 10)
    device.run("relu4", 1, 32, [device.output(160), y, np.int32(7)])
    assert y.written().sum() == 7 * 16
    y.mark(initialised=False)
    assert not y.written().any()


def test_two_modules_share_their_memory(load: Callable[[str], Device], folder: Path, device: Device) -> None:
    load("counted")
    other = Program(folder / "counted.so", device.program.memory)
    x = device.array(np.arange(32, dtype=np.float32))
    y = device.output(128)
    Device(other).run("strided", 1, 32, [x, y, np.int32(1)])
    z = device.output(128)
    device.run("relu4", 1, 32, [y, z, np.int32(8)])
    np.testing.assert_array_equal(z.array(np.float32), np.arange(32))
    other.close()


def test_closed_modules_give_their_memory_back(load: Callable[[str], Device], folder: Path) -> None:
    load("correct")
    script = (
        "import sys, resource; from pathlib import Path; import numpy as np\n"
        "from services.profiler.cpu.execute import *\n"
        "memory = DeviceMemory(1 << 28)\n"
        "x, y = memory.allocate(1 << 16), memory.allocate(1 << 16)\n"
        "sizes = []\n"
        "for i in range(12):\n"
        "    p = Program(Path(sys.argv[1]), memory)\n"
        "    a = [x, y, np.int32(64), np.int32(64)]\n"
        "    r = run_launch(p, 'transpose', (2, 2, 1), (32, 8, 1), 0, a, check=True, count=True)\n"
        "    assert (r.status, r.findings) == ('ok', ()), r\n"
        "    p.close()\n"
        "    sizes.append(int(open('/proc/self/statm').read().split()[0]))\n"
        "print(sizes[-1] - sizes[2])\n"
    )
    command = [sys.executable, "-c", script, str(folder / "correct.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert abs(int(done.stdout)) < 2000  # pages


def test_lack_of_address_space_is_no_verdict_on_the_kernel(load: Callable[[str], Device], folder: Path) -> None:
    load("correct")
    script = (
        "import sys, resource; from pathlib import Path; import numpy as np\n"
        "from services.profiler.cpu.execute import *\n"
        "memory = DeviceMemory(1 << 26)\n"
        "p = Program(Path(sys.argv[1]), memory)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24), used + (1 << 24)))\n"
        "a = [memory.allocate(1 << 16), memory.allocate(1 << 16), np.int32(64), np.int32(64)]\n"
        "try:\n"
        "    run_launch(p, 'transpose', (2, 2, 1), (32, 8, 1), 0, a, check=True, count=False)\n"
        "except MemoryError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script, str(folder / "correct.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "no address space left" in done.stdout, done.stderr

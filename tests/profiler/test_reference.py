"""NumPy statements give expected outputs, and hostile ones give nothing but an error."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from optiml.errors import InvalidArgumentError
from optiml.sandboxing import landlock
from optiml.sandboxing.worker_process import WorkerProcess
from optiml.v1 import problem_pb2
from services.profiler import reference
from services.profiler.inputs import Case, draw
from services.profiler.reference import Expected, numpy_outputs, reference_process
from tests.profiler.kernels import matmul_problem, relu_problem

needs_landlock = pytest.mark.skipif(landlock.abi_version() == 0, reason="this kernel has no Landlock")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process() -> AsyncIterator[WorkerProcess]:
    async with reference_process() as process:
        yield process


async def _outputs(process: WorkerProcess, problem: problem_pb2.Problem, statements: str) -> Expected:
    problem.reference.numpy = statements
    case = Case.of(problem.smoke[0], seed=1)
    return await numpy_outputs(process, problem, case, draw(problem, case))


@pytest.mark.asyncio(loop_scope="module")
async def test_inputs_are_float64_and_outputs_come_back(process: WorkerProcess) -> None:
    problem = matmul_problem()
    outputs = await _outputs(process, problem, "assert A.dtype == np.float64\nC = A @ B")
    inputs = draw(problem, Case.of(problem.smoke[0], 1)).buffers
    assert np.allclose(outputs["C"], inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64), rtol=1e-14)


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ("y = nothing", "line 1: NameError"),
        ("z = 1\ny = 1 / 0", "line 2: ZeroDivisionError"),
        ("y = x[:", "line 1: SyntaxError"),
        ("z = x", "no value was assigned to the output 'y'"),
        ("y = np.zeros(3)", "shape"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os; os._exit(7)", "status 7"),
        ("import os; os.close(1); y = x; print('noise')", ""),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_reference_that_fails_is_told_by_line(process: WorkerProcess, statements: str, words: str) -> None:
    if not words:
        assert "y" in await _outputs(process, relu_problem(), statements)
        return
    with pytest.raises(InvalidArgumentError, match=r"problem\.reference\.numpy") as caught:
        await _outputs(process, relu_problem(), statements)
    assert words in str(caught.value)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reference_that_hangs_is_killed(process: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    short = reference.settings().model_copy(update={"check_seconds": 0.5})
    with monkeypatch.context() as patch:
        patch.setattr(reference, "settings", lambda: short)
        with pytest.raises(InvalidArgumentError, match=r"longer than 0\.5 s"):
            await _outputs(process, relu_problem(), "while True: pass")
    assert "y" in await _outputs(process, relu_problem(), "y = x")


@needs_landlock
@pytest.mark.parametrize(
    "statements",
    [
        "import os; os.system('echo x > {target}'); y = x",
        "import subprocess; subprocess.run(['/bin/sh', '-c', 'echo x > {target}']); y = x",
        "open('{target}', 'w').write('x'); y = x",
        "import os\nif os.fork() == 0:\n  os.execv('/bin/touch', ['touch', '{target}'])\ny = x",
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_hostile_reference_touches_nothing(process: WorkerProcess, tmp_path: Path, statements: str) -> None:
    target = tmp_path / "touched"
    with contextlib.suppress(InvalidArgumentError):  # it may fail or go on
        await _outputs(process, relu_problem(), statements.format(target=target))
    assert not target.exists()
    await process.stop()  # a fork that failed to run anything would answer too


@needs_landlock
@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd').read()", "open('/proc/1/environ').read()", "__import__('os').listdir('/root')",
     "__import__('socket').create_connection(('127.0.0.1', 22))", "import os; os.kill(os.getppid(), 9)"],
)  # fmt: skip
@pytest.mark.asyncio(loop_scope="module")
async def test_a_hostile_reference_reads_nothing_and_reaches_nobody(process: WorkerProcess, attempt: str) -> None:
    with pytest.raises(InvalidArgumentError, match="PermissionError"):
        await _outputs(process, relu_problem(), f"{attempt}\ny = x")

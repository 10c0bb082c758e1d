"""Kernel source and launches to PTX, cubin, entry names and resources: nvcc, c++filt and ptxas in one sandbox run.

Launches name functions by C++ name expressions, as in `relu<float, 4>`. Text appended to the source (user lines keep
their numbers) instantiates one marker kernel for each of them with the function as a template argument: that forces
the instantiation, and the marker's demangled name tells which entry it is. Results are cached by content on disk,
failures included, since the compiler is deterministic.
"""

import asyncio
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optiml.sandboxing import sandbox
from optiml.settings import settings
from optiml.v1 import evaluation_pb2, kernel_pb2, verdict_pb2
from services.profiler.cache_limit import prune, touch
from services.profiler.entry_names import Entry, entries_by_launch, without_markers
from services.profiler.failure import CandidateError
from services.profiler.toolchain import Toolchain, find_host_compiler, find_toolchain

__all__ = ["Compiled", "compile_kernel", "scrub", "toolchain_text"]

_FLAGS = ("-lineinfo", "-O3", "-std=c++17")
_SIGNALLED = 128
_BUILDS_BETWEEN_PRUNINGS = 100
_builds = itertools.count()
_CACHE_VERSION = "1"
_MOST_OUTPUT_BYTES = 64 << 20
_MOST_LOG_CHARACTERS = 16 << 10
_NAME = re.compile(r"[A-Za-z_][\w:<>,&*()+\- ]{0,255}")
_MARKER = """
#line 1 "launches"
template <int I, auto* K> __global__ void optiml_entry() {}
"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel, compiled."""

    key: str
    """Content address of source, names, architecture and compiler."""
    ptx: str
    """PTX without the markers."""
    cubin: Path
    entries: dict[str, Entry]
    """By the launches' names."""
    resources: dict[str, evaluation_pb2.Resources]
    """Likewise; occupancy is not set yet."""
    log: str


def toolchain_text(architecture: str) -> str:
    """Return the compiler and its flags, as an Evaluation tells them: "nvcc 13.0.88 -O3 sm_90"."""
    return f"nvcc {find_toolchain().version} -O3 {architecture}"


def scrub(log: str, folder: Path) -> str:
    """Return the log without this machine's paths, and not longer than an Evaluation's log may be."""
    text = log.replace(f"{folder}/", "").replace(str(folder), ".")
    text = re.sub(r"(?<![\w.<\"])/(?:[\w.+-]+/)+([\w.+-]+)", r"\1", text)
    return text[:_MOST_LOG_CHARACTERS]


def _without_markers(ptxas_log: str) -> str:
    """Drop what ptxas says about the markers, and times, which differ from run to run."""
    plain = re.sub(r"^ptxas info\s*: Compile time.*\n", "", ptxas_log, flags=re.MULTILINE)
    marker = r"^ptxas info\s*: Compiling entry function '\w*optiml_entryI.*?(?=^ptxas info\s*: Compiling entry|\Z)"
    return re.sub(marker, "", plain, flags=re.MULTILINE | re.DOTALL)


def _names(launches: Sequence[kernel_pb2.Launch]) -> list[str]:
    names = list(dict.fromkeys(launch.kernel for launch in launches))
    for name in names:
        if not _NAME.fullmatch(name):
            raise CandidateError(
                verdict_pb2.VERDICT_LAUNCH_FAILED,
                f"launch of {name[:80]!r}: not a function's name; write it as in relu or relu<float, 4>",
            )
    return names


def _markers(names: Sequence[str]) -> str:
    lines = [f"template __global__ void optiml_entry<{i}, &{name}>();\n" for i, name in enumerate(names)]
    return _MARKER + "".join(lines)


def _failure(outcome: sandbox.Outcome, folder: Path) -> CandidateError:
    log = scrub(outcome.stderr.decode(errors="replace") + outcome.stdout.decode(errors="replace"), folder)
    if outcome.timed_out:
        limit = settings().compile_seconds
        return CandidateError(verdict_pb2.VERDICT_COMPILE_FAILED, f"compiling takes longer than {limit:g} s", log)
    errors = re.findall(r"^.*\berror\b.*$", log, re.MULTILINE) or log.splitlines()[:1]
    first = errors[0].strip() if errors else f"the compiler ended with status {outcome.status}"
    missing = re.match(r"launches\((\d+)\): error: (.*)", first)
    if missing and int(missing.group(1)) > 1:
        first = f"launch {int(missing.group(1)) - 2}: {missing.group(2)}"  # the marker's template is line 1
    exceeded = re.search(r"uses too much shared data|too many resources|Entry function .* uses too much", log)
    verdict = verdict_pb2.VERDICT_RESOURCE_EXCEEDED if exceeded else verdict_pb2.VERDICT_COMPILE_FAILED
    return CandidateError(verdict, first, log)


def _key(source: str, names: Sequence[str], architecture: str, tools: Toolchain) -> str:
    parts = (_CACHE_VERSION, source, *names, architecture, tools.version, *_FLAGS)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _resources(ptxas_log: str, entries: dict[str, Entry]) -> dict[str, evaluation_pb2.Resources]:
    found = {}
    for name, entry in entries.items():
        block = re.search(
            rf"Compiling entry function '{re.escape(entry.symbol)}'.*?(?=Compiling entry|\Z)", ptxas_log, re.DOTALL
        )
        text = block.group() if block else ""

        def number(pattern: str, text: str = text) -> int:
            match = re.search(pattern, text)
            return int(match.group(1)) if match else 0

        found[name] = evaluation_pb2.Resources(
            kernel=name,
            registers=number(r"Used (\d+) registers"),
            static_shared_memory_bytes=number(r"(\d+) bytes smem"),
            stack_bytes=number(r"(\d+) bytes stack frame"),
            spill_store_bytes=number(r"(\d+) bytes spill stores"),
            spill_load_bytes=number(r"(\d+) bytes spill loads"),
        )
    return found


async def _build(source: str, names: Sequence[str], architecture: str, tools: Toolchain, folder: Path) -> None:
    """Leave kernel.ptx, kernel.names, kernel.cubin and log in `folder`.

    Raises:
        CandidateError: the compiler refused the source.
    """
    (folder / "kernel.cu").write_text(source + _markers(names))
    nvcc = [str(tools.nvcc), "-ptx", *_FLAGS, f"-arch={architecture}", "kernel.cu", "-o", "kernel.ptx"]
    ptxas = [str(tools.ptxas), "-v", f"-arch={architecture}", "-O3", "kernel.ptx", "-o", "kernel.cubin"]
    demangle = [str(find_host_compiler().demangler)]
    outcome = await sandbox.run(
        [
            sandbox.Step(nvcc),
            sandbox.Step(demangle, stdin=folder / "kernel.ptx", stdout=folder / "kernel.names"),
            sandbox.Step(ptxas),
        ],
        folder,
        sandbox.Limits(settings().compile_seconds, int(settings().compile_seconds) + 1),
        readable=tools.readable,
        path=[tools.nvcc.parent],
    )
    if outcome.status != 0:
        error = _failure(outcome, folder)
        if not outcome.timed_out and outcome.status < _SIGNALLED:  # what the machine did to it is not worth keeping
            (folder / "failure.json").write_text(json.dumps([error.verdict, error.reason, error.log]))
        raise error
    (folder / "log").write_text(scrub(_without_markers(outcome.stderr.decode(errors="replace")), folder))


def _cached(place: Path, key: str, names: Sequence[str]) -> Compiled | None:
    failure = place / "failure.json"
    if failure.exists():
        verdict, reason, log = json.loads(failure.read_text())
        raise CandidateError(verdict, reason, log)
    if not (place / "kernel.cubin").exists():
        return None
    touch(place)
    return _read(place, key, names)


def _read(place: Path, key: str, names: Sequence[str]) -> Compiled:
    text = sandbox.read_output(place / "kernel.ptx", _MOST_OUTPUT_BYTES).decode()
    demangled = sandbox.read_output(place / "kernel.names", _MOST_OUTPUT_BYTES).decode(errors="replace")
    log = sandbox.read_output(place / "log", _MOST_OUTPUT_BYTES).decode()
    entries = entries_by_launch(text, demangled, names)
    return Compiled(key, without_markers(text), place / "kernel.cubin", entries, _resources(log, entries), log)


def _keep(folder: Path, place: Path) -> None:
    """Move what was built into the cache, whole or not at all; whoever was first wins."""
    place.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=place.parent, prefix="."))
    try:
        for name in ("kernel.ptx", "kernel.names", "kernel.cubin", "log", "failure.json"):
            if (folder / name).is_file() and not (folder / name).is_symlink():
                shutil.copyfile(folder / name, staged / name, follow_symlinks=False)
        os.rename(staged, place)  # noqa: PTH104 - the atomic one
    except OSError:
        if not place.exists():
            raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)


async def compile_kernel(
    source: str, launches: Sequence[kernel_pb2.Launch], architecture: str, *, cache: Path | None = None
) -> Compiled:
    """Compile for an architecture, as in "sm_90".

    Args:
        source: device code; `services.profiler.source_rules` has accepted it.
        launches: name the functions that are needed.
        architecture: as nvcc writes it.
        cache: folder of the cache; None is the settings' one.

    Raises:
        CandidateError: COMPILE_FAILED, RESOURCE_EXCEEDED or LAUNCH_FAILED, with the compiler's words.
        PreconditionError: no compiler is here.
    """
    tools, names = find_toolchain(), _names(launches)
    key = _key(source, names, architecture, tools)
    cache = cache or settings().cache_folder
    place = cache / "compiled" / key[:2] / key
    if found := _cached(place, key, names):
        return found
    async with sandbox.private_folder("compile") as folder:
        try:
            await _build(source, names, architecture, tools, folder)
        except CandidateError:
            if (folder / "failure.json").exists():
                _keep(folder, place)
            raise
        _keep(folder, place)
    if next(_builds) % _BUILDS_BETWEEN_PRUNINGS == 0:
        await asyncio.to_thread(prune, cache, settings().cache_bytes)
    return _read(place, key, names)

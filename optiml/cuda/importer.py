"""From a `.cu` file to a problem and a kernel: what can be inferred is, and what cannot is named with its line.

The launch plan comes from `<<<>>>`, buffers from the allocations, roles from what the kernel does with its pointers,
parameters from the host's integer constants (their values become the time size), and the reference is the kernel
itself.

Which launches are the program, if nobody names a kernel: all of them, each once, in the order of the source. That is
refused where it would be a guess: launches under conditions, and two kernels that write the same buffer although
neither reads what the other wrote (versions of one kernel, most likely).
"""

import re
from collections.abc import Sequence
from pathlib import Path

from optiml.cuda.assembly import Assembly
from optiml.cuda.cursors import is_pointer
from optiml.cuda.device_code import device_code, device_words
from optiml.cuda.host import Host
from optiml.cuda.host_program import HostLaunch, HostProgram, buffer_name, host_program
from optiml.cuda.host_variables import host_of
from optiml.cuda.imported import Imported, Missing
from optiml.cuda.kernel_functions import definition_of, parameters_of
from optiml.cuda.kernel_usage import Usage, usages
from optiml.cuda.launch_sizes import fix_launch_sizes
from optiml.cuda.parse import parse_cuda
from optiml.cuda.pieces import Piece, pieces
from optiml.cuda.shared_variables import shared_variables
from optiml.cuda.unlaunched import describe_unlaunched
from optiml.errors import InvalidArgumentError

__all__ = ["Imported", "Missing", "import_file"]

_MAX_BYTES = 4 << 20
_SYNTAX = re.compile(r"expected|extraneous|unterminated|missing|invalid (?:token|suffix|digit)|stray|unbalanced")
_MANY_SPLICES = re.compile(r"(?:\\[ \t]*\r?\n[ \t]*){300}")  # thousands of them make the parser overflow its stack
_LIBRARIES = re.compile(r"\b((?:cublas|cudnn|cufft|cusparse|cusolver|curand|nccl)[A-Z]\w*|thrust::\w+)\s*[(<]")


def import_file(text: str, origin: str, kernel: str | None = None, directory: Path | None = None) -> Imported:
    """Read a `.cu` file.

    Args:
        text: its content.
        origin: how errors call it.
        kernel: the `__global__` function to optimise; None or empty if the file leaves no choice.
        directory: where its headers are.

    Raises:
        InvalidArgumentError: it is no CUDA, holds no kernel, does not parse, or leaves a choice that nobody made.
    """
    _require_text(text, origin)
    parsed = parse_cuda(text, Path(origin).name or "kernel.cu", directory=directory)
    cut = pieces(parsed)
    result = Imported(origin, text, parsed, cut, directory=directory)
    names = sorted({name for piece in cut if piece.kind == "kernel" for name in piece.names})
    _require_syntax(result)
    if not names:
        raise InvalidArgumentError(_no_kernel(result))
    if kernel and kernel not in names:
        raise InvalidArgumentError(f"{origin}: no kernel {kernel!r} in it (there are: {', '.join(names)})")
    host = host_of(parsed, cut, device_words(cut, frozenset([kernel] if kernel else names)))
    program = host_program(host)
    fix_launch_sizes(host, program)
    result.launches = _chosen(result, host, program, names, kernel or None)
    functions = frozenset(launch.function.spelling for launch in result.launches) or frozenset([kernel or names[0]])
    result.kernel.source = device_code(parsed, functions, origin=origin, directory=directory)
    result.problem.name = re.sub(r"[^\w .:+-]", "_", Path(origin).stem)[:128] or "kernel"
    for name in sorted(functions & program.nested.keys()):
        raise InvalidArgumentError(
            f"{origin}:{program.nested[name]}: kernel {name!r} launches kernels itself; dynamic parallelism cannot be "
            "a launch plan: name another kernel with --kernel, or launch from the host"
        )
    if not result.launches:
        describe_unlaunched(result, kernel or names[0])
        return result
    Assembly(result, program, host).run()
    _note_what_is_left_out(result)
    return result


def _require_text(text: str, origin: str) -> None:
    if len(text) > _MAX_BYTES:
        raise InvalidArgumentError(
            f"{origin}: has {len(text)} characters, and files of at most {_MAX_BYTES} are read; "
            "put the kernel and its launch into a file of their own"
        )
    if "\0" in text:
        raise InvalidArgumentError(f"{origin}: is not text; give a CUDA source file (.cu)")
    if match := _MANY_SPLICES.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise InvalidArgumentError(f"{origin}:{line}: hundreds of lines that only end in a backslash; remove them")
    if not text.strip():
        raise InvalidArgumentError(f"{origin}: is empty; give a CUDA source file with a __global__ kernel")


def _require_syntax(result: Imported) -> None:
    """Refuse a file whose device code the parser cannot read; the host's may lack headers."""
    device = [p for p in result.cut if p.kind in {"kernel", "device"}]
    spans = [(p.line, p.line + result.parsed.data.count(b"\n", p.body, p.end)) for p in device]
    for diagnostic in result.parsed.diagnostics:
        inside = any(first <= diagnostic.line <= last for first, last in spans)
        if inside and _SYNTAX.match(diagnostic.message):
            raise InvalidArgumentError(
                f"{result.origin}:{diagnostic.line}: {diagnostic.message}; mend it so that nvcc compiles the file"
            )


def _no_kernel(result: Imported) -> str:
    errors = [d for d in result.parsed.diagnostics if d.line and not d.fatal]
    if "__global__" in result.text and errors:
        return f"{result.origin}:{errors[0].line}: {errors[0].message}; the kernel cannot be read until that is mended"
    if errors:
        return (
            f"{result.origin}:{errors[0].line}: {errors[0].message}; this is not CUDA, or holds no kernel: give a .cu "
            "file with a __global__ function"
        )
    return f"{result.origin}: no kernel in it; OptiML optimises __global__ functions"


def _chosen(
    result: Imported, host: Host, program: HostProgram, names: Sequence[str], kernel: str | None
) -> list[HostLaunch]:
    launches = [x for x in program.launches if x.function.spelling in names]
    if kernel is not None:
        launches = [launch for launch in launches if launch.function.spelling == kernel]
    elif not launches and len(names) > 1:
        raise InvalidArgumentError(
            f"{result.origin}: {len(names)} kernels and no launch; name one with --kernel: {', '.join(names)}"
        )
    unique: dict[tuple[str, str], list[HostLaunch]] = {}
    for launch in launches:
        arguments = ", ".join(buffer_name(host, a) or result.parsed.source(a) for a in launch.arguments)
        unique.setdefault((launch.kernel, arguments), []).append(launch)
    chosen = [same[0] for same in unique.values()]
    if len({launch.function.spelling for launch in chosen}) > 1:
        if guess := _branched(chosen) or _versions(host, chosen):
            places = ", ".join(f"{x.function.spelling} (line {x.line})" for x in chosen)
            raise InvalidArgumentError(f"{result.origin}: {guess}: {places}; name one with --kernel")
    elif len(chosen) > 1 and kernel is not None and (again := _branched(chosen)):
        result.notes.append(f"{again}: the first one, in line {chosen[0].line}, is taken")
        chosen = chosen[:1]
    result.repeats = [same[1:] for same in unique.values()][: len(chosen)]
    return chosen


def _branched(chosen: Sequence[HostLaunch]) -> str:
    return "launches under conditions" if sum(launch.branch for launch in chosen) > 1 else ""


def _versions(host: Host, chosen: Sequence[HostLaunch]) -> str:
    """Return why two kernels are versions of one rather than steps of a program; empty if they are not."""
    written: dict[str, str] = {}
    for launch in chosen:
        reads, writes = _traffic(host, launch)
        for buffer in writes - reads:
            if written.get(buffer, launch.function.spelling) != launch.function.spelling:
                return f"launches that each write {buffer!r} anew"
        for buffer in reads:
            written.pop(buffer, None)
        written |= dict.fromkeys(writes, launch.function.spelling)
    return ""


def _traffic(host: Host, launch: HostLaunch) -> tuple[set[str], set[str]]:
    used = usages(definition_of(launch.function))
    reads: set[str] = set()
    writes: set[str] = set()
    for parameter, argument in zip(parameters_of(launch.function), launch.arguments, strict=False):
        name = buffer_name(host, argument) if is_pointer(parameter) else None
        usage = used.get(parameter.spelling, Usage(reads=True, writes=True))
        if name is not None:
            reads |= {name} if usage.reads else set()
            writes |= {name} if usage.writes else set()
    return reads, writes


def _note_what_is_left_out(result: Imported) -> None:
    result.missing += shared_variables(result.cut, result.kernel.source)
    called = sorted({m.group(1) for p in _host(result.cut) for m in _LIBRARIES.finditer(p.text)})
    if called:
        result.notes.append(f"library calls are not part of the problem: {', '.join(called[:8])}")
    if len({launch.function.spelling for launch in result.launches}) > 1:
        result.notes.append("all launches are optimised together, in the order of the source")


def _host(cut: list[Piece]) -> list[Piece]:
    return [piece for piece in cut if piece.kind == "host"]

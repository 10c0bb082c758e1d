"""From a `.cu` file to a problem and a kernel: what can be inferred is, and what cannot is named with its line.

The launch plan comes from `<<<>>>`, buffers from the allocations, roles from what the kernel does with its pointers,
parameters from the host's integer constants (their values become the time size), and the reference is the kernel
itself. Several launches are one program if they share a buffer.
"""

from collections.abc import Sequence
from pathlib import Path

from optiml.cuda.assembly import Assembly, Imported, Missing, is_pointer
from optiml.cuda.device_code import device_code, pieces
from optiml.cuda.host_expressions import host_of
from optiml.cuda.host_program import HostLaunch, HostProgram, buffer_name, host_program
from optiml.cuda.parse import parse_cuda
from optiml.errors import InvalidArgumentError

__all__ = ["Imported", "Missing", "import_file"]

_MAX_BYTES = 4 << 20


def import_file(text: str, origin: str, kernel: str | None = None, directory: Path | None = None) -> Imported:
    """Read a `.cu` file.

    Args:
        text: its content.
        origin: how errors call it.
        kernel: the `__global__` function to optimise; None if the file leaves no choice.
        directory: where its headers are.

    Raises:
        InvalidArgumentError: it is no CUDA, holds no kernel, or leaves a choice that nobody made.
    """
    if len(text) > _MAX_BYTES:
        raise InvalidArgumentError(f"{origin}: {len(text)} characters; files of at most {_MAX_BYTES} are read")
    if "\0" in text:
        raise InvalidArgumentError(f"{origin}: is not text; give a CUDA source file (.cu)")
    if not text.strip():
        raise InvalidArgumentError(f"{origin}: is empty; give a CUDA source file with a __global__ kernel")
    parsed = parse_cuda(text, Path(origin).name or "kernel.cu", directory=directory)
    cut = pieces(parsed)
    result = Imported(origin, text, parsed, cut)
    names = sorted({name for piece in cut if piece.kind == "kernel" for name in piece.names})
    if not names:
        raise InvalidArgumentError(_no_kernel(result))
    _needs_headers(result)
    device_words = frozenset[str]().union(*(p.words for p in cut if p.kind in {"kernel", "device"}))
    host = host_of(parsed, device_words)
    program = host_program(host)
    result.launches = _chosen(result, program, names, kernel)
    functions = frozenset(launch.function.spelling for launch in result.launches) or frozenset([kernel or names[0]])
    result.kernel.source = device_code(parsed, functions, origin=origin, directory=directory)
    result.problem.name = Path(origin).stem
    if not result.launches:
        why = f"no launch of {kernel or names[0]!r} is in the file"
        hint = "add a launch section: kernel, grid, block, arguments; and the arguments with their shapes"
        result.missing.append(Missing("launch", 0, why, hint))
        return result
    Assembly(result, program, host.values).run(host)
    return result


def _no_kernel(result: Imported) -> str:
    errors = [d for d in result.parsed.diagnostics if d.line]
    if "__global__" in result.text and errors:
        return f"{result.origin}:{errors[0].line}: {errors[0].message}; the kernel cannot be read until that is mended"
    if errors:
        return f"{result.origin}: is not CUDA, or has no kernel (line {errors[0].line}: {errors[0].message})"
    return f"{result.origin}: no kernel in it; OptiML optimises __global__ functions"


def _needs_headers(result: Imported) -> None:
    for diagnostic in result.parsed.diagnostics:
        if diagnostic.fatal and diagnostic.line and "file not found" in diagnostic.message:
            name = diagnostic.message.split("'")[1]
            line = result.text.splitlines()[diagnostic.line - 1]
            if f'"{name}"' in line:
                raise InvalidArgumentError(
                    f"{result.origin}:{diagnostic.line}: header {name!r} is not there; put it beside the file"
                )


def _chosen(result: Imported, program: HostProgram, names: Sequence[str], kernel: str | None) -> list[HostLaunch]:
    if kernel is not None and kernel not in names:
        raise InvalidArgumentError(f"{result.origin}: no kernel {kernel!r} in it (there are: {', '.join(names)})")
    launches = [x for x in program.launches if x.function is not None and x.function.spelling in names]
    if kernel is not None:
        launches = [launch for launch in launches if launch.function.spelling == kernel]
    elif not launches and len(names) > 1:
        raise InvalidArgumentError(
            f"{result.origin}: {len(names)} kernels and no launch; name one with --kernel: {', '.join(names)}"
        )
    unique: dict[tuple[str, str], HostLaunch] = {}
    for launch in launches:
        arguments = ", ".join(result.parsed.source(a) for a in launch.arguments)
        unique.setdefault((launch.kernel, arguments), launch)
    chosen = list(unique.values())
    buffers = [{buffer_name(a) for a in launch.arguments if is_pointer(a)} for launch in chosen]
    for index in range(1, len(chosen)):
        if not buffers[index] & set[str | None]().union(*buffers[:index]):
            places = ", ".join(f"{x.function.spelling} (line {x.line})" for x in chosen)
            raise InvalidArgumentError(
                f"{result.origin}: launches that share no buffer: {places}; name one with --kernel"
            )
    return chosen

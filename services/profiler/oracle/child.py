"""Breaks sources with libclang; sandboxed, since a C++ front end is a large target."""

import os
import sys

from optiml.sandboxing.frames import Frame, read_frame, write_frame
from services.profiler.oracle.mutants import interleaved, mutants_of

__all__ = ["main"]


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := read_frame(sys.stdin.buffer)) is not None:
        mutants = interleaved(mutants_of(request.header["source"]), request.header["most"])
        told = [{"kind": m.kind, "line": m.line, "before": m.before, "after": m.after} for m in mutants]
        write_frame(answers, Frame({"mutants": told}, [mutant.source.encode() for mutant in mutants]))


if __name__ == "__main__":
    main()

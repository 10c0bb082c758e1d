"""Looks for host code in a candidate's text with libclang; sandboxed, since a C++ front end is a large target."""

import os
import sys

from optiml.cuda.device_code import host_code_violations
from optiml.cuda.parse import parse_cuda
from optiml.sandboxing.frames import Frame, read_frame, write_frame

__all__ = ["main"]


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := read_frame(sys.stdin.buffer)) is not None:
        source = request.header["source"]
        write_frame(answers, Frame({"violations": host_code_violations(source, parse_cuda(source))}))


if __name__ == "__main__":
    main()

"""Content addresses: the same kernel, problem or evaluation has the same id everywhere."""

import hashlib
import re

from google.protobuf.message import Message

from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2

__all__ = ["evaluation_id", "kernel_id", "normalised_source", "problem_id"]

_DIGITS = 24  # 96 bits: no collision to be expected before 10^14 kernels

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<space>[ \t\r\f\v]+)""",
    re.DOTALL,
)


def normalised_source(source: str) -> str:
    """Return the source without comments, trailing space, blank lines and runs of spaces.

    Line structure stays, since preprocessor lines depend on it. Two sources with the same normal form compile to the
    same code, up to line numbers.
    """

    def replace(match: re.Match[str]) -> str:
        if match.lastgroup == "text":
            return match.group()
        return " "

    plain = _TOKEN.sub(replace, source)
    lines = (re.sub(r"  +", " ", line).strip() for line in plain.split("\n"))
    return "\n".join(line for line in lines if line)


def _digest(prefix: str, message: Message) -> str:
    digest = hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
    return prefix + digest[:_DIGITS]


def kernel_id(kernel: kernel_pb2.Kernel) -> str:
    """Return the id of a kernel: the hash of normalised source, launches and scratch."""
    content = kernel_pb2.Kernel()
    content.CopyFrom(kernel)
    content.id = ""
    content.source = normalised_source(kernel.source)
    return _digest("k", content)


def problem_id(problem: problem_pb2.Problem) -> str:
    """Return the id of a problem: the hash of everything but its id."""
    content = problem_pb2.Problem()
    content.CopyFrom(problem)
    content.id = ""
    return _digest("p", content)


def evaluation_id(problem: str, kernel: str, device: evaluation_pb2.Device, toolchain: str) -> str:
    """Return the id of the evaluation of a kernel (by id) on a problem (by id), a device and a toolchain."""
    content = evaluation_pb2.Evaluation(problem_id=problem, kernel_id=kernel, device=device, toolchain=toolchain)
    return _digest("e", content)

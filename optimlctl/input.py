"""What the person hands in: a source file and its problem, as the messages that the services take."""

from dataclasses import dataclass

from optiml.v1 import kernel_pb2, problem_pb2
from optimlctl.launch_comment import with_launches
from optimlctl.submissions import Submission
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    submission: Submission
    origin: str


@dataclass(frozen=True, slots=True)
class Exported:
    source: str
    patch: str


@dataclass(frozen=True, slots=True)
class Draft:
    text: str
    missing: list[str]


def read_input(file: Path, kernel: str, problem: Path | None) -> Input:
    from optimlctl.source_file import read_text

    read_text(file, "CUDA source file")
    raise NotImplementedError


def draft(file: Path, kernel: str) -> Draft:
    raise NotImplementedError


def export(best: kernel_pb2.Kernel, submission: Submission | None) -> Exported:
    if submission is None:
        return Exported(with_launches(best), "")
    raise NotImplementedError

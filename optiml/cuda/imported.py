"""What an imported file says: the data that import, draft and export share."""

from dataclasses import dataclass, field
from pathlib import Path

from optiml.cuda.host_program import HostLaunch
from optiml.cuda.parse import Parsed
from optiml.cuda.pieces import Piece
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["Imported", "Missing"]


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that the file does not tell."""

    field: str
    """Path in the problem file, as in "arguments.A.shape"."""
    line: int
    """Line of the source; 0 if none."""
    why: str
    hint: str
    """What to write."""


@dataclass(slots=True)
class Imported:
    """What a file says."""

    origin: str
    text: str
    parsed: Parsed
    cut: list[Piece]
    problem: problem_pb2.Problem = field(default_factory=problem_pb2.Problem)
    kernel: kernel_pb2.Kernel = field(default_factory=kernel_pb2.Kernel)
    launches: list[HostLaunch] = field(default_factory=list)
    """The host's launches, parallel to kernel.launches; empty if the file launches nothing."""
    repeats: list[list[HostLaunch]] = field(default_factory=list)
    """For each launch, the other places that launch the same, as in a warm-up or a loop that takes the time."""
    directory: Path | None = None
    """Where the file's own headers are."""
    host_names: dict[str, str] = field(default_factory=dict)
    """Buffer's name in the problem → the host's variable."""
    terms: dict[str, str] = field(default_factory=dict)
    """Parameter of the problem → what the host writes for it, where that is not its name."""
    places: dict[str, str] = field(default_factory=dict)
    """Parameter of the problem → the host function that declares it; empty if it is known everywhere."""
    missing: list[Missing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def file_line(self, device_line: int) -> int:
        """Return the line of the file that a line of the kernel's source comes from; 0 if it cannot be told."""
        lines = self.kernel.source.split("\n")
        if not 1 <= device_line <= len(lines):
            return 0
        wanted = lines[device_line - 1]
        before = lines[: device_line - 1].count(wanted)
        for number, line in enumerate(self.text.split("\n"), 1):
            if line == wanted:
                if before == 0:
                    return number
                before -= 1
        return 0

"""Options that several commands share, so that they read the same everywhere."""

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from optiml.v1 import search_pb2, verdict_pb2

__all__ = [
    "Device",
    "DeviceOption",
    "FileArgument",
    "IdArgument",
    "JsonOption",
    "KernelOption",
    "OutOption",
    "ProblemOption",
    "QuietOption",
    "RequestIdOption",
    "RoundsOption",
    "SeedOption",
    "ServerOption",
    "TimeLimitOption",
    "device_kind",
    "search_settings",
]


class Device(str, Enum):  # noqa: UP042 - typer prints the values of a str enum
    """Where kernels are evaluated."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


FileArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A CUDA source file.")]
IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="An optimization's id, as `list` shows it.")]
KernelOption: TypeAlias = Annotated[
    str, typer.Option("--kernel", metavar="NAME", help="Which kernel, if FILE launches several.")
]
ProblemOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--problem", metavar="FILE", help="Problem file; else FILE's stem with .yaml beside it, else inferred."
    ),
]
ServerOption: TypeAlias = Annotated[
    str,
    typer.Option("--server", metavar="ADDR", envvar="OPTIML_SERVER", help="host:port or unix:/path; else in-process."),
]
DeviceOption: TypeAlias = Annotated[Device, typer.Option("--device", help="Where to evaluate kernels.")]
RoundsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--rounds", min=0, max=1_000_000, metavar="N", help="Edits to evaluate at most; 0 is the default of 24."
    ),
]
TimeLimitOption: TypeAlias = Annotated[
    float, typer.Option("--time-limit", min=0.0, max=1e7, metavar="S", help="Seconds to search at most; 0 is no limit.")
]
SeedOption: TypeAlias = Annotated[
    int, typer.Option("--seed", min=0, max=2**64 - 1, metavar="S", help="Seed of every random choice.")
]
RequestIdOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="UUID", help="The same id and input join the same search, as a restarted job does."
    ),
]
OutOption: TypeAlias = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write the results.")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]

_KINDS = {
    Device.AUTO: verdict_pb2.DEVICE_KIND_UNSPECIFIED,
    Device.CPU: verdict_pb2.DEVICE_KIND_CPU,
    Device.CUDA: verdict_pb2.DEVICE_KIND_CUDA,
}


def device_kind(device: Device) -> verdict_pb2.DeviceKind.ValueType:
    """Return the enum value for the option."""
    return _KINDS[device]


def search_settings(device: Device, rounds: int, time_limit: float, seed: int) -> search_pb2.SearchSettings:
    """Return the settings of a search; zeros are left for the server's defaults."""
    budget = search_pb2.Budget(rounds=rounds, wall_seconds=time_limit)
    return search_pb2.SearchSettings(budget=budget, seed=seed, device=device_kind(device))

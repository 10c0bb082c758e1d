"""Finds the compilers: nvcc and ptxas of a CUDA toolkit (or of its wheels), and g++."""

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from optiml.errors import PreconditionError

__all__ = ["HostCompiler", "Toolchain", "find_host_compiler", "find_toolchain"]

_CURE_NVCC = (
    "install the CUDA toolkit 12.4 or later, set CUDA_HOME to its folder, or `pip install 'optiml[nvcc]'`"
)  # fmt: skip
_CURE_HOST = "install g++ and binutils, as in `apt-get install g++`"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A CUDA toolkit that was found."""

    nvcc: Path
    ptxas: Path
    version: str
    """As in "13.0.88"."""
    home: Path
    """The folder above `bin`, with everything that nvcc reads."""

    @property
    def readable(self) -> list[Path]:
        """The folders that compiling reads."""
        return [self.home, self.home.resolve()]


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """The C++ compiler behind the CPU executor, and the demangler beside it."""

    gxx: Path
    demangler: Path
    version: str


def _candidates() -> list[Path]:
    """Return nvcc's possible places, best first: what the user named, the PATH, the usual folder, the wheels."""
    named = [Path(os.environ[name]) / "bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    wheels = sorted(packages.glob("cu1[23]/bin/nvcc"), reverse=True)
    # The toolkit's own folder before the PATH: distributions and clusters put wrappers there that hide its folder.
    return [*named, Path("/usr/local/cuda/bin/nvcc"), *([Path(on_path)] if on_path else []), *wheels]


def _version(nvcc: Path) -> str | None:
    try:
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release [\d.]+, V([\d.]+)", answer.stdout)
    return found.group(1) if found else None


@cache
def find_toolchain() -> Toolchain:
    """Return the first CUDA toolkit that works.

    Raises:
        PreconditionError: there is none; the message has the cure.
    """
    broken = []
    for nvcc in _candidates():
        ptxas = nvcc.with_name("ptxas")
        if not (nvcc.is_file() and ptxas.is_file()):
            continue
        version = _version(nvcc)
        if version:
            return Toolchain(nvcc, ptxas, version, nvcc.resolve().parents[1])
        broken.append(nvcc)
    tried = f"; {', '.join(map(str, broken))} does not run" if broken else ""
    raise PreconditionError(f"no CUDA compiler was found{tried}: {_CURE_NVCC}")


@cache
def find_host_compiler() -> HostCompiler:
    """Return g++ and c++filt.

    Raises:
        PreconditionError: one of them is missing; the message has the cure.
    """
    gxx, demangler = shutil.which("g++"), shutil.which("c++filt")
    if gxx is None or demangler is None:
        raise PreconditionError(f"no host compiler was found: {_CURE_HOST}")
    answer = subprocess.run([gxx, "-dumpfullversion"], capture_output=True, text=True, timeout=20, check=False)
    return HostCompiler(Path(gxx), Path(demangler), answer.stdout.strip())

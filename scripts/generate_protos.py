"""Generate optiml/v1 from protos/: messages, typed stubs and services.

Usage: python scripts/generate_protos.py [OUT]
OUT is the folder that gets optiml/v1 (the repository by default; a test passes a temporary one to see staleness).
"""

import os
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def generate(out: Path) -> None:
    """Write the modules for every proto below `out`.

    Raises:
        SystemExit: protoc refused a file; it has printed why.
    """
    protos = sorted((ROOT / "protos").rglob("*.proto"))
    out.mkdir(parents=True, exist_ok=True)
    # protoc looks for its plugins on PATH, and this interpreter may not be the one that is there.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    arguments = [
        "protoc",
        f"-I{ROOT / 'protos'}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--grpc_python_out={out}",
        f"--mypy_grpc_out=quiet:{out}",
        *map(str, protos),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed")
    for module in out.glob("optiml/v1/*_pb2_grpc.py*"):  # protos without a service give empty files
        if "service" not in module.name:
            module.unlink()


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)

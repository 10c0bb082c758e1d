"""Serves ProfilerService. Usage: python -m services.profiler [--listen ADDRESS]."""

import argparse
import asyncio

from optiml.logging import configure_logging
from optiml.rpc.server import serve_until_signal
from optiml.settings import settings
from services.profiler.server import service

_DEFAULT_ADDRESS = "127.0.0.1:7404"


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m services.profiler", description=__doc__)
    parser.add_argument(
        "--listen", default=settings().listen_address or _DEFAULT_ADDRESS, help="host:port or unix:/path"
    )
    arguments = parser.parse_args()
    configure_logging(settings().log_level)
    asyncio.run(serve_until_signal([service()], arguments.listen))


if __name__ == "__main__":
    main()

"""Run the generator: `python -m services.generator --listen 127.0.0.1:7402`."""

import argparse
import asyncio
import sys

import structlog

from optiml.logging import configure_logging
from optiml.rpc.server import serve_until_signal
from services.generator.server import service


async def _serve(address: str) -> None:
    await serve_until_signal([service()], address)


def main() -> int:
    """Serve until SIGTERM or SIGINT; 1 if the address cannot be bound."""
    parser = argparse.ArgumentParser(prog="services.generator", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:7402", help="host:port or unix:/path (default: %(default)s)")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    arguments = parser.parse_args()
    configure_logging(arguments.log_level)
    try:
        asyncio.run(_serve(arguments.listen))
    except OSError as error:
        structlog.get_logger(__name__).error("cannot serve", reason=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

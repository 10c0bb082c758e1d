"""`python -m services.orchestrator --listen ADDRESS`: serve the OptimizerService until a signal."""

import argparse
import asyncio

from pydantic import ValidationError

from optiml.errors import Error
from optiml.logging import configure_logging
from optiml.rpc.server import serve_until_signal
from optiml.settings import settings
from services.orchestrator.server import service

_LISTEN = "127.0.0.1:7401"


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m services.orchestrator", description="Serve the OptimizerService.")
    parser.add_argument("--listen", default=settings().listen_address or _LISTEN, metavar="ADDRESS")
    arguments = parser.parse_args()
    configure_logging(settings().log_level)
    try:
        asyncio.run(serve_until_signal([service()], arguments.listen))
    except (OSError, Error, ValidationError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()

"""`python -m services.judge --listen ADDRESS`: serve the JudgeService until a signal."""

import argparse
import asyncio

from optiml.logging import configure_logging
from optiml.rpc.server import serve_until_signal
from optiml.settings import settings
from services.judge.server import service

_LISTEN = "127.0.0.1:7403"


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m services.judge", description="Serve the JudgeService.")
    parser.add_argument("--listen", default=settings().listen_address or _LISTEN, metavar="ADDRESS")
    arguments = parser.parse_args()
    configure_logging(settings().log_level)
    try:
        asyncio.run(serve_until_signal([service()], arguments.listen))
    except OSError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()

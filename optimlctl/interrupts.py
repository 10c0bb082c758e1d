"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second leaves at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from optimlctl.exit_codes import ExitCode

__all__ = ["interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"  # a live view hides it


@contextmanager
def interrupts() -> Iterator[asyncio.Event]:
    """Catch both signals within the context, in the main thread.

    Yields:
        An event that the first signal sets.
    """
    loop = asyncio.get_running_loop()
    first = asyncio.Event()

    def caught() -> None:
        if first.is_set():
            if sys.stdout.isatty():
                sys.stdout.write(_SHOW_CURSOR)
                sys.stdout.flush()
            sys.stderr.write("left at once; if the search still runs, `optimlctl cancel ID` ends it\n")
            sys.stderr.flush()
            os._exit(ExitCode.INTERRUPTED)
        first.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, caught)
    try:
        yield first
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

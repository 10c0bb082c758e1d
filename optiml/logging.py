"""Structured logging: JSON where nobody watches, colours on a terminal; always to standard error, always UTC."""

import logging
import sys

import structlog

__all__ = ["configure_logging"]


def configure_logging(level: str = "info", *, json: bool | None = None) -> None:
    """Route structlog and the standard library's logging to standard error.

    Args:
        level: "debug", "info", "warning" or "error".
        json: True for JSON lines, False for people; None decides by whether standard error is a terminal.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    numeric = logging.getLevelNamesMapping()[level.upper()]
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(numeric, logging.WARNING), stream=sys.stderr, force=True)

"""Settings that services and client share, from the environment (`OPTIML_…`), a `.env` file or a secrets folder."""

import os
from functools import cache
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings", "settings"]


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "optiml"


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "optiml"


class Settings(BaseSettings):
    """Every setting, with its default. A name in upper case after `OPTIML_` sets it, as in `OPTIML_LOG_LEVEL=debug`."""

    model_config = SettingsConfigDict(env_prefix="OPTIML_", env_file=".env", extra="ignore")

    log_level: str = "warning"
    """debug, info, warning or error."""
    state_folder: Path = Field(default_factory=_state_folder)
    """Where the embedded store lives."""
    cache_folder: Path = Field(default_factory=_cache_folder)
    """Where compiled things are kept; safe to delete at any time."""
    cache_bytes: int = 4 << 30
    """Size that the cache folder is kept under; what was longest not used goes first."""
    store_url: str = ""
    """SQLAlchemy URL of the store; empty is SQLite in the state folder."""
    generator_address: str = "127.0.0.1:7402"
    """Where the orchestrator finds the generator."""
    judge_address: str = "127.0.0.1:7403"
    """Where the orchestrator finds the judge."""
    profiler_address: str = "127.0.0.1:7404"
    """Where the orchestrator finds the profiler."""
    listen_address: str = ""
    """Where a service listens; empty is the service's own default on the loopback interface."""
    target_device: str = "H200"
    """The device whose limits and peak rates estimates use where there is no GPU; see optiml.devices."""
    compile_seconds: float = 60.0
    """Limit of one compilation."""
    check_seconds: float = 30.0
    """Limit of all checks of one evaluation."""
    evaluation_queue: int = 64
    """Evaluations that may wait in a profiler before it answers RESOURCE_EXHAUSTED."""


@cache
def settings() -> Settings:
    """Return the settings of this process, read once."""
    return Settings()

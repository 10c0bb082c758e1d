"""Settings of the search, from the environment (`OPTIML_SEARCH_…`), and the defaults of what a client leaves unset."""

import math

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from optiml.errors import FieldViolation
from optiml.v1 import search_pb2, verdict_pb2

__all__ = ["SearchTuning", "settings_violations", "with_defaults"]

_MOST_ROUNDS = 100_000
_MOST_WALL_SECONDS = 30 * 86_400.0


class SearchTuning(BaseSettings):
    """What an operator may tune. A name in upper case after `OPTIML_SEARCH_` sets it."""

    model_config = SettingsConfigDict(env_prefix="OPTIML_SEARCH_", env_file=".env", extra="ignore")

    concurrent: int = Field(default=2, ge=0)
    """Optimizations that one orchestrator drives at a time; the others stay PENDING. 0 drives none."""
    lease_seconds: float = Field(default=10.0, gt=0)
    """How long a silent orchestrator keeps an optimization before another takes it over."""
    widening_factor: float = Field(default=1.5, gt=0)
    """k of progressive widening: a node visited n times may have ceil(k n^alpha) children."""
    widening_exponent: float = Field(default=0.5, gt=0, le=1)
    """alpha of progressive widening (Couetoux et al. 2011, "Continuous Upper Confidence Trees")."""
    proposals: int = Field(default=0, ge=0)
    """Most edits to ask for at a node; 0 lets the generator choose."""
    rounds: int = Field(default=24, ge=1)
    """Rounds of a search whose client set no budget."""
    exploration: float = Field(default=0.1, gt=0)
    """UCT's constant, for rewards in [-1, 1]; small, since budgets are: see benchmarks/search_quality.py."""
    best_weight: float = Field(default=0.8, ge=0, le=1)
    """How much of a node's worth is the best reward below it; the rest is the mean, which noise disturbs less."""
    weight_time: float = Field(default=1.0, gt=0)
    """Weight of the time term."""
    weight_proxy: float = Field(default=0.25, gt=0)
    """Weight of the proxy term; small, since it only breaks ties between edits that time cannot tell apart."""
    weight_judge: float = Field(default=0.25, gt=0)
    """Weight of the judge term."""


def with_defaults(settings: search_pb2.SearchSettings, tuning: SearchTuning) -> search_pb2.SearchSettings:
    """Return the settings with what is unset (0) filled in; rounds only if no wall time is set either."""
    filled = search_pb2.SearchSettings()
    filled.CopyFrom(settings)
    if not filled.budget.rounds and not filled.budget.wall_seconds:
        filled.budget.rounds = tuning.rounds
    filled.exploration = filled.exploration or tuning.exploration
    filled.weight_time = filled.weight_time or tuning.weight_time
    filled.weight_proxy = filled.weight_proxy or tuning.weight_proxy
    filled.weight_judge = filled.weight_judge or tuning.weight_judge
    return filled


def settings_violations(settings: search_pb2.SearchSettings) -> list[FieldViolation]:
    """Return what is wrong with a client's settings, field by field."""
    found = []
    limits = {"budget.rounds": _MOST_ROUNDS, "budget.wall_seconds": _MOST_WALL_SECONDS}
    values = {
        "budget.rounds": settings.budget.rounds,
        "budget.wall_seconds": settings.budget.wall_seconds,
        "exploration": settings.exploration,
        "weight_time": settings.weight_time,
        "weight_proxy": settings.weight_proxy,
        "weight_judge": settings.weight_judge,
    }
    for name, value in values.items():
        most = limits.get(name, 1000.0)
        if not math.isfinite(value) or not 0 <= value <= most:
            found.append(FieldViolation(f"settings.{name}", f"{value:g} is not between 0 and {most:g}"))
    if settings.device not in verdict_pb2.DeviceKind.values():
        found.append(FieldViolation("settings.device", f"{settings.device} is no DeviceKind"))
    return found

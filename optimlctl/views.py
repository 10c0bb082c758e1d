"""What a person sees while a search runs: a live view on a terminal, plain lines in a pipe, nothing when quiet.

All go to standard error where standard output belongs to a program (`--json`).
"""

import time
from collections import Counter
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from optiml.v1 import search_pb2, verdict_pb2
from optimlctl import wording
from optimlctl.failures import one_line
from optimlctl.rounds import Log, Round, outcome

__all__ = ["LiveView", "PlainLines", "QuietView", "View", "open_view"]

_RECENT_ROUNDS = 6


class View(Protocol):
    """Shows a search as it goes; a context manager."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def show(self, event: search_pb2.Event) -> None:
        """Take in the next event."""

    def say(self, line: str) -> None:
        """Show a line of the client's own."""


def open_view(optimization: search_pb2.Optimization, *, quiet: bool, to_stderr: bool) -> View:
    """Return the view for where the output goes."""
    if quiet:
        return QuietView()
    console = Console(stderr=to_stderr, highlight=False)
    live = console.is_terminal and not console.is_dumb_terminal
    return LiveView(console, optimization) if live else PlainLines(console, optimization)


class QuietView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, event: search_pb2.Event) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""


class PlainLines(QuietView):
    """One line for each fact, for pipes and logs."""

    def __init__(self, console: Console, optimization: search_pb2.Optimization) -> None:
        self._console = console
        self._limit = optimization.settings.budget.rounds
        self._log = Log()

    def show(self, event: search_pb2.Event) -> None:
        """Print what the event tells; work in hand is left out."""
        ended = self._log.add(event)
        if ended is not None:
            self.say(round_line(ended, self._limit))
        elif event.HasField("baseline_evaluated"):
            self.say(baseline_line(event.baseline_evaluated))
        elif event.HasField("node_diagnosed"):
            diagnosis = event.node_diagnosed.diagnosis
            node = event.node_diagnosed.node
            self.say(f"node {node}: {wording.bottleneck(diagnosis.bottleneck)}. {diagnosis.summary}")
        elif event.HasField("finished"):
            self.say(finished_line(event.finished))

    def say(self, line: str) -> None:
        """Print one line, whole: never wrapped, never with colours."""
        self._console.print(one_line(line), soft_wrap=True, markup=False)


class LiveView(QuietView):
    """A panel that is redrawn four times a second."""

    def __init__(self, console: Console, optimization: search_pb2.Optimization) -> None:
        self._log = Log()
        self._budget = optimization.settings.budget
        self._name = optimization.problem.name or "kernel"
        self._id = optimization.id
        self._started = time.monotonic()
        self._verdicts: Counter[str] = Counter()
        self._recent: list[Round] = []
        self._rounds = 0
        self._kept = 0
        self._best: str | None = None
        self._best_speedup = 1.0
        self._baseline = "evaluating the baseline"
        self._work = ""
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, event: search_pb2.Event) -> None:
        """Take the event into the panel."""
        ended = self._log.add(event)
        if ended is not None:
            self._take(ended)
        elif event.HasField("baseline_evaluated"):
            self._baseline = baseline_line(event.baseline_evaluated).removeprefix("baseline ")
        elif event.HasField("progress"):
            self._work = one_line(f"{event.progress.stage}: {event.progress.what}")
        elif event.HasField("finished"):
            self._work = ""
            self.say(finished_line(event.finished))

    def say(self, line: str) -> None:
        """Print a line above the panel."""
        self._live.console.print(escape(one_line(line)))

    def _take(self, ended: Round) -> None:
        evaluated = ended.evaluated
        self._rounds = max(self._rounds, evaluated.round)
        self._verdicts[wording.verdict(evaluated.evaluation.verdict)] += 1
        self._recent = [*self._recent, ended][-_RECENT_ROUNDS:]
        if evaluated.kept:
            self._kept += 1
            if evaluated.against_baseline.speedup > self._best_speedup:
                self._best_speedup = evaluated.against_baseline.speedup
                self._best = f"{wording.speedup(evaluated.against_baseline)} by {wording.edit_name(ended.edit)}"

    def _render(self) -> Group:
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column(overflow="ellipsis", no_wrap=True)
        verdicts = ", ".join(f"{count} {name}" for name, count in self._verdicts.most_common())
        limit = f" of {self._budget.rounds}" if self._budget.rounds else ""
        rows.add_row("optimizing", Text(f"{self._name}  {self._id}"))
        rows.add_row("baseline", Text(self._baseline))
        rows.add_row("best", Text(self._best or "nothing faster yet", style="bold green" if self._best else ""))
        rows.add_row(
            "rounds", Text(f"{self._rounds}{limit}, {self._kept} kept" + (f"; {verdicts}" if verdicts else ""))
        )
        rows.add_row("now", Text(self._work or "-"))
        rows.add_row("time", Text(self._clock()))
        recent = [_recent_line(ended, self._budget.rounds) for ended in self._recent]
        return Group(rows, Text(""), *recent)

    def _clock(self) -> str:
        elapsed = time.monotonic() - self._started
        told = wording.duration(elapsed)
        left = self._seconds_left(elapsed)
        return told if left is None else f"{told}, about {wording.duration(left)} left at most"

    def _seconds_left(self, elapsed: float) -> float | None:
        guesses = []
        if self._budget.wall_seconds:
            guesses.append(self._budget.wall_seconds - elapsed)
        if self._budget.rounds and self._rounds:
            guesses.append(elapsed / self._rounds * (self._budget.rounds - self._rounds))
        return min(guesses) if guesses else None


def baseline_line(event: search_pb2.BaselineEvaluated) -> str:
    """Return what the baseline's evaluation says, one line."""
    evaluation = event.evaluation
    where = wording.device(evaluation.device)
    if evaluation.verdict != verdict_pb2.VERDICT_OK:
        return f"baseline {wording.verdict(evaluation.verdict)} on {where}: {evaluation.reason}"
    source = wording.provenance(evaluation.timings[0].provenance) if evaluation.timings else "UNKNOWN"
    return f"baseline {wording.milliseconds(wording.time_ms(evaluation))} ({source}) on {where}"


def round_line(ended: Round, limit: int) -> str:
    """Return what came of a round, one line."""
    of = f"/{limit}" if limit else ""
    return f"round {ended.evaluated.round}{of}: {wording.edit_name(ended.edit)}: {outcome(ended)}"


def finished_line(event: search_pb2.Finished) -> str:
    """Return how the search ended, one line."""
    state = search_pb2.OptimizationState.Name(event.state).removeprefix("OPTIMIZATION_STATE_").lower()
    return f"{state}: {event.stop_reason}" if event.stop_reason else state  # a failure is told as the error


def _recent_line(ended: Round, limit: int) -> Text:
    style = "green" if ended.evaluated.kept else "dim"
    return Text(one_line(round_line(ended, limit)), style=style, no_wrap=True, overflow="ellipsis")

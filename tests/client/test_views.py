import io

from rich.console import Console

from optiml.v1 import search_pb2
from optimlctl.views import LiveView, PlainLines
from tests.client import messages

PLAIN = """\
baseline 0.2006 ms (MEASURED) on NVIDIA H200 (sm_90)
node 0: instruction overhead. Two of three issued instructions compute addresses.
round 1/3: drop_guard: WRONG_RESULT: Y[36] is 1.5 | expected 0
round 2/3: vectorise width=4: kept, 1.54x (1.51 to 1.57, MEASURED) over its parent
round 3/3: unroll factor=8: not faster beyond noise, 1.01x (0.99 to 1.03, MEASURED) over its parent
succeeded: budget
"""


def _plain(events: list[search_pb2.Event]) -> str:
    text = io.StringIO()
    with PlainLines(Console(file=text, width=40), messages.optimization()) as view:
        for event in events:
            view.show(event)
    return text.getvalue()


def _live(events: list[search_pb2.Event], width: int = 120) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, height=30, force_terminal=True, color_system=None)
    with LiveView(console, messages.optimization()) as view:
        for event in events:
            view.show(event)
    return text.getvalue()


def test_plain_lines_are_one_line_for_each_fact_however_narrow_the_console() -> None:
    assert _plain(messages.EVENTS) == PLAIN


def test_text_of_a_server_cannot_drive_the_terminal_or_style_the_output() -> None:
    event = search_pb2.Event()
    event.CopyFrom(messages.EVENTS[4])
    event.edit_evaluated.evaluation.reason = "\x1b[2J[red]a\nb[/]"
    assert _plain([messages.EVENTS[3], event]) == "round 1/3: drop_guard: WRONG_RESULT:  [2J[red]a b[/]\n"


def test_the_live_view_shows_the_best_with_its_provenance() -> None:
    assert "1.54x (1.51 to 1.57, MEASURED) by vectorise width=4" in _live(messages.EVENTS)


def test_the_live_view_counts_rounds_and_verdicts() -> None:
    assert "3 of 3, 1 kept; 2 OK, 1 WRONG_RESULT" in _live(messages.EVENTS)


def test_the_live_view_shows_the_work_in_hand() -> None:
    progress = search_pb2.Event(progress=search_pb2.Progress(what="unroll factor=8", stage="compile"))
    assert "compile: unroll factor=8" in _live([progress])


def test_the_live_view_says_when_nothing_is_faster_yet() -> None:
    assert "nothing faster yet" in _live(messages.EVENTS[:5])


def test_the_live_view_survives_markup_in_text() -> None:
    finished = search_pb2.Event(finished=search_pb2.Finished(stop_reason="[/red] [bold"))
    assert "[/red] [bold" in _live([finished])

"""The live view on a real (pseudo) terminal."""

import asyncio
import os
import pty
import re
from pathlib import Path

from tests.client import messages
from tests.client.serving_log import serving_log
from tests.command_line import command, environment

ID = messages.optimization().id
COLOUR = re.compile(r"\x1b\[[0-9;]*[1-9][0-9;]*m")
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


async def _on_terminal(home: Path, extra: dict[str, str]) -> str:
    own, its = pty.openpty()
    variables = {name: value for name, value in environment(home).items() if name != "NO_COLOR"}
    async with serving_log(home, messages.EVENTS) as (_, address):
        process = await asyncio.create_subprocess_exec(
            *command("watch", ID, "--server", address),
            stdin=its,
            stdout=its,
            stderr=its,
            env={**variables, "TERM": "xterm-256color", **extra},
        )
        os.close(its)
        text = await asyncio.to_thread(_read_to_end, own)
        assert await process.wait() == 0
    os.close(own)
    return text


def _read_to_end(terminal: int) -> str:
    told = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # what Linux says when the other side has closed
            part = b""
        if not part:
            return told.decode()
        told += part


async def test_the_live_view_is_drawn_and_leaves_the_cursor_as_it_was(tmp_path: Path) -> None:
    text = await _on_terminal(tmp_path, {})
    assert "1.54x (1.51 to 1.57, MEASURED) by vectorise width=4" in text
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


async def test_there_is_colour_on_a_terminal(tmp_path: Path) -> None:
    assert COLOUR.search(await _on_terminal(tmp_path, {}))


async def test_no_color_is_respected(tmp_path: Path) -> None:
    text = await _on_terminal(tmp_path, {"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-9][;m]", text)


async def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    text = await _on_terminal(tmp_path, {"TERM": "dumb"})
    assert "\x1b[" not in text
    assert "round 2/3: vectorise width=4: kept" in text

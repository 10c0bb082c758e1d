"""Run a command and keep what it prints as a picture: README's SVG is made by it.

Usage: python scripts/terminal_picture.py OUT.svg TITLE COMMAND...
"""

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def picture(out: Path, title: str, command: list[str]) -> None:
    """Write the SVG.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    console = Console(record=True, width=118, file=sys.stderr)
    console.print(Text(f"$ {title}", style="bold"))
    console.print(Text(done.stdout.rstrip()))
    svg = console.export_svg(title="optimlctl")
    out.write_text(re.sub(r"@font-face\s*\{[^}]*\}", "", svg))  # fonts from the network: the reader's own will do


if __name__ == "__main__":
    picture(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])

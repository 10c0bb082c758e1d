"""Run a command and keep what it prints as a picture: README's SVG is made by it.

Usage: python scripts/terminal_picture.py OUT.svg TITLE COMMAND...
"""

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
    console.save_svg(str(out), title="optimlctl")


if __name__ == "__main__":
    picture(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])

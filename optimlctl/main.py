"""The entry point."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from optimlctl.application import run  # noqa: PLC0415 - takes half a second, in which Ctrl-C may come

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        code = 130  # ExitCode.INTERRUPTED; importing it takes as long
    sys.exit(code)


if __name__ == "__main__":
    main()

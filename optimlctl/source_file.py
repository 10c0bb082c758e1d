"""Reading the files that a person names."""

from pathlib import Path

from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError

__all__ = ["read_text"]

_LARGEST_BYTES = 1 << 20


def read_text(path: Path, what: str) -> str:
    """Return the text of a file, line ends as they are.

    Args:
        path: the file.
        what: what it should be, for messages, as in "CUDA source file".

    Raises:
        CommandError: there is no such file, or it is no text of at most 1 MiB.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise CommandError(f"no such file: {path}", ExitCode.INVALID_INPUT) from None
    except IsADirectoryError:
        raise CommandError(f"{path} is a folder; name the {what} in it", ExitCode.INVALID_INPUT) from None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise CommandError(f"cannot read {path}: {told}", ExitCode.INVALID_INPUT) from error
    if len(data) > _LARGEST_BYTES:
        raise CommandError(f"{path} is larger than 1 MiB, too large for a {what}", ExitCode.INVALID_INPUT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{path} is not text in UTF-8 (byte {error.start}); name a {what}", ExitCode.INVALID_INPUT
        ) from None
    if "\0" in text:
        raise CommandError(f"{path} is a binary file; name a {what}", ExitCode.INVALID_INPUT)
    if not text.strip():
        raise CommandError(f"{path} is empty; name a {what}", ExitCode.INVALID_INPUT)
    return text

"""Failures as a person reads them: one line with what, where and how to mend it, and an exit code."""

import errno

import grpc

from optiml import errors
from optiml.rpc.status import from_rpc_error
from optimlctl.exit_codes import ExitCode, of_error

__all__ = ["CommandError", "one_line", "printable", "tell", "write_error"]


class CommandError(Exception):
    """A failure that the client found itself. `str(error)` is the line to print, without `error: `."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


_WRITE_CURES = {
    errno.EACCES: "make it writable, or choose another place with {option}",
    errno.EPERM: "make it writable, or choose another place with {option}",
    errno.EROFS: "choose another place with {option}",
    errno.ENOSPC: "free some space, or choose another place with {option}",
    errno.EDQUOT: "free some space, or choose another place with {option}",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or choose another place with {option}",
    errno.ENOTDIR: "a part of the path is a file; choose another place with {option}",
    errno.ENOENT: "make its folder first, or choose another place with {option}",
}


def write_error(error: OSError, what: str, where: object, option: str = "--out") -> CommandError:
    """Return the error that tells why `what` could not be written to `where`, and which option names another place."""
    cure = _WRITE_CURES.get(error.errno or 0, "choose another place with {option}").format(option=option)
    return CommandError(f"cannot write {what} to {where}: {error.strerror or error}; {cure}")


def one_line(text: str) -> str:
    """Return the text as one line, safe for a terminal."""
    return printable(" ".join(text.split()))


def printable(line: str) -> str:
    """Return the line without control characters: text of servers and compilers must not drive a terminal."""
    return "".join(c if c.isprintable() else " " for c in line)


def tell(error: Exception) -> tuple[str, ExitCode] | None:
    """Return the line and the exit code for an expected failure; None for a bug."""
    if isinstance(error, grpc.aio.AioRpcError):
        try:
            error = from_rpc_error(error)
        except grpc.aio.AioRpcError as other:
            return one_line(f"the service answered {other.code().name}: {other.details()}"), of_error(other)
    if isinstance(error, CommandError):
        return one_line(str(error)), error.code
    if isinstance(error, errors.InvalidArgumentError):
        fields = [str(violation) for violation in error.violations if violation.description not in str(error)]
        return one_line("; ".join([str(error), *fields])), of_error(error)
    if isinstance(error, errors.NotFoundError):
        hint = "" if "optimlctl list" in str(error) else "; `optimlctl list` shows those there are"
        return one_line(f"{error}{hint}"), of_error(error)
    if isinstance(error, errors.Error):
        return one_line(str(error)), of_error(error)
    return None

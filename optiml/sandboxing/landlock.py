"""Landlock: a process gives up most of the file system, TCP, signals to others and, if told so, running programs.

Needs no privilege (Linux 5.13 and later; TCP from 6.7, signals from 6.12) and cannot be undone. Where the kernel has no
Landlock, nothing happens and `restrict` says so. Constants are from linux/landlock.h.
"""

import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

__all__ = ["abi_version", "restrict"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on x86-64 and arm64
_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the ABI that brought them
_TCP_ABI, _SCOPE_ABI = 4, 6


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [
        ("allowed_access", ctypes.c_uint64),
        ("parent_fd", ctypes.c_int32),
    ]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def abi_version() -> int:
    """Return the Landlock ABI of the running kernel, 0 where there is none."""
    if platform.system() != "Linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _RULESET_VERSION)
    return max(int(version), 0)


def _filesystem_rights(abi: int) -> int:
    return _RIGHTS[max(level for level in _RIGHTS if level <= abi)]


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing there, nothing to allow
    try:
        allowed = rights if path.is_dir() else rights & _FILE_ONLY
        rule = _PathBeneath(allowed, handle)
        if libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
            raise OSError(ctypes.get_errno(), f"landlock refuses a rule for {path}")
    finally:
        os.close(handle)


def restrict(
    readable: Iterable[Path], writable: Iterable[Path], *, execute: bool, listable: Iterable[Path] = ()
) -> bool:
    """Leave this process, and all that it starts, only these folders and files; no TCP, no signals to outsiders.

    Args:
        readable: what may be read; missing paths are passed over.
        writable: what may also be written, made and removed.
        execute: whether programs beneath `readable` may be started.
        listable: folders whose names may be read, but no file's contents.

    Returns:
        False where the kernel has no Landlock: nothing was restricted.

    Raises:
        OSError: the kernel refused a rule.
    """
    abi = abi_version()
    if abi == 0:
        return False
    libc = _libc()
    handled = _filesystem_rights(abi)
    attributes = _RulesetAttributes(handled, 3 if abi >= _TCP_ABI else 0, 3 if abi >= _SCOPE_ABI else 0)
    size = 24 if abi >= _SCOPE_ABI else 16 if abi >= _TCP_ABI else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock refuses a ruleset")
    reading = _READ_FILE | _READ_DIR | (_EXECUTE if execute else 0)
    try:
        for path in readable:
            _allow(libc, ruleset, path, reading & handled)
        for path in listable:
            _allow(libc, ruleset, path, _READ_DIR)
        for path in writable:
            _allow(libc, ruleset, path, handled if execute else handled & ~_EXECUTE)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock refuses to restrict this process")
    finally:
        os.close(ruleset)
    return True

"""ctypes mirrors of the structures in runtime/executor.h."""

import ctypes

FINDINGS_MAX = 20
STATUSES = ("ok", "timed_out", "deadlock", "fault", "trap")
NO_ADDRESS_SPACE = len(STATUSES)
FINDING_KINDS = (
    "race",
    "out-of-bounds",
    "misaligned",
    "uninitialised",
    "divergent-barrier",
    "deadlock",
)


class Allocation(ctypes.Structure):
    """One live buffer."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("initialised", ctypes.c_uint32),
        ("number", ctypes.c_uint32),
    )


class Finding(ctypes.Structure):
    """One finding of the checker."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("other_line", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("message", ctypes.c_char * 200),
    )


class Request(ctypes.Structure):
    """One launch."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("entry", ctypes.c_uint32),
        ("dynamic_shared", ctypes.c_uint32),
        ("static_shared", ctypes.c_uint32),
        ("dynamic_align", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("params", ctypes.c_char_p),
        ("params_bytes", ctypes.c_uint64),
        ("blocks", ctypes.c_void_p),
        ("blocks_count", ctypes.c_uint64),
        ("time_limit_s", ctypes.c_double),
        ("step_limit", ctypes.c_uint64),
        ("arena", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("allocations", ctypes.c_void_p),
        ("allocations_count", ctypes.c_uint64),
        ("written", ctypes.c_void_p),
        ("l1_lines_of_a_warp", ctypes.c_uint32),
    )


class Reply(ctypes.Structure):
    """What a launch gave."""

    _fields_ = (
        ("status", ctypes.c_uint32),
        ("findings_count", ctypes.c_uint32),
        ("trap_line", ctypes.c_uint32),
        ("trap", ctypes.c_char * 60),
        ("blocks_run", ctypes.c_uint64),
        ("threads_run", ctypes.c_uint64),
        ("findings", Finding * FINDINGS_MAX),
        ("warp_blocks", ctypes.c_void_p),
        ("thread_blocks", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
        ("traffic", ctypes.c_void_p),
    )

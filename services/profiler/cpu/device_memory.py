"""The memory that kernels may touch: one arena with gaps between its buffers."""

import mmap
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from services.profiler.cpu.native import Allocation

if TYPE_CHECKING:
    from ctypes import Array

# Device allocations are aligned to 256 bytes; kernels rely on it for vector accesses.
ALIGN_BYTES = 256
# Around every buffer: what is just past an end belongs to nobody.
GAP_BYTES = 4096
# Linux's value; the mmap module of Python 3.11 does not name it.
_MAP_NORESERVE = 0x4000


@dataclass(eq=False)
class Buffer:
    """A live device buffer.

    Attributes:
        address: Device address.
        nbytes: Size in bytes.
        initialised: Whether all of it counts as written. Else reads of bytes that no checked launch has written are
            findings.
    """

    address: int
    nbytes: int
    initialised: bool
    _memory: "DeviceMemory" = field(repr=False)

    @property
    def view(self) -> NDArray[np.uint8]:
        """All bytes, shape (nbytes,), writable; valid until the memory is closed."""
        return self._memory.bytes_at(self.address, self.nbytes)

    def array(self, dtype: DTypeLike, shape: tuple[int, ...] | int = -1) -> NDArray[Any]:
        """A writable view with an element type and shape."""
        return self.view.view(dtype).reshape(shape)

    def mark(self, *, initialised: bool) -> None:
        """Says whether the content counts as written, for instance after poisoning or filling it."""
        self.initialised = initialised
        if not initialised:
            self._memory.forget_writes(self)

    def written(self) -> NDArray[np.bool_]:
        """Which bytes checked launches have written since the buffer was made or marked, shape (nbytes,)."""
        return self._memory.written(self)

    def free(self) -> None:
        """Gives the buffer back: a later access to it is out of bounds."""
        self._memory.free(self)


class DeviceMemory:
    """An arena of address space that costs memory only where it is touched.

    Addresses are handed out in rising order and never twice while a buffer lives; freeing the last buffers lets
    their space be used again, with its content gone.
    """

    def __init__(self, capacity_bytes: int = 16 << 30) -> None:
        """Reserves `capacity_bytes` of address space.

        Raises:
            MemoryError: The system grants no such address space.
        """
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            self._arena = mmap.mmap(-1, capacity_bytes, flags=flags)
            self._written = mmap.mmap(-1, capacity_bytes // 8 + 16, flags=flags)
        except OSError as error:
            raise MemoryError(f"no address space of {capacity_bytes} bytes for device memory: {error}") from error
        self.capacity_bytes = capacity_bytes
        self._bytes: NDArray[np.uint8] = np.frombuffer(self._arena, np.uint8)
        self._bits: NDArray[np.uint8] = np.frombuffer(self._written, np.uint8)
        self.base = int(self._bytes.ctypes.data)
        self.written_base = int(self._bits.ctypes.data)
        self._top = GAP_BYTES
        self._buffers: list[Buffer] = []

    def allocate(self, nbytes: int, *, initialised: bool = True) -> Buffer:
        """Makes a buffer of zeros.

        Args:
            nbytes: Size; 0 is allowed and gives an address that must not be accessed.
            initialised: False for outputs and scratch, so that reading what was never written is found.

        Raises:
            MemoryError: The arena is full.
        """
        if nbytes < 0:
            raise ValueError(f"a buffer of {nbytes} bytes")
        start = self._top
        # The base is page-aligned, so aligned offsets are aligned addresses.
        end = -(-(start + nbytes) // ALIGN_BYTES) * ALIGN_BYTES + GAP_BYTES
        if end > self.capacity_bytes:
            raise MemoryError(f"{nbytes} bytes do not fit: {self.capacity_bytes - start} of device memory are left")
        self._top = end
        buffer = Buffer(self.base + start, nbytes, initialised, weakref.proxy(self))
        self._buffers.append(buffer)
        return buffer

    def reserve(self, extents: Sequence[tuple[int, int]], nbytes: int) -> tuple[int, list[Buffer]]:
        """Makes several buffers at fixed places of one block of address space.

        Args:
            extents: Offset in the block and size of each buffer, in bytes.
            nbytes: Size of the block; what no extent covers belongs to nobody.

        Returns:
            The block's address and the buffers, initialised.
        """
        block = self.allocate(nbytes)
        self._buffers.remove(block)
        found = [
            Buffer(block.address + offset, size, initialised=True, _memory=block._memory)  # noqa: SLF001  own class
            for offset, size in extents
        ]
        self._buffers += found
        return block.address, found

    def free(self, buffer: Buffer) -> None:
        """See `Buffer.free`."""
        if buffer not in self._buffers:
            raise ValueError("the buffer was freed before or belongs to another memory")
        self._buffers.remove(buffer)
        last = max((b.address - self.base + b.nbytes for b in self._buffers), default=0)
        top = -(-last // ALIGN_BYTES) * ALIGN_BYTES + GAP_BYTES
        self._discard(top, self._top)
        self._top = top

    def _discard(self, start: int, end: int) -> None:
        """Gives pages back to the system, so that they read as zeros again."""
        page = mmap.PAGESIZE
        first, last = -(-start // page) * page, end // page * page
        self._bytes[start : min(first, end)] = 0
        if last > first:
            self._arena.madvise(mmap.MADV_DONTNEED, first, last - first)
        self._bytes[max(last, start) : end] = 0
        self._bits[start // 8 : end // 8] = 0

    def allocations(self) -> "Array[Allocation]":
        """Live buffers for the runtime, by address."""
        rows = sorted(self._buffers, key=lambda b: b.address)
        found = (Allocation * len(rows))()
        for index, buffer in enumerate(rows):
            found[index] = Allocation(buffer.address, buffer.nbytes, int(buffer.initialised), index)
        return found

    def owns(self, buffer: Buffer) -> bool:
        """Whether the buffer lives here."""
        return buffer in self._buffers

    def bytes_at(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """A writable view of raw bytes."""
        return self._bytes[address - self.base : address - self.base + nbytes]

    def written(self, buffer: Buffer) -> NDArray[np.bool_]:
        """See `Buffer.written`."""
        start = buffer.address - self.base
        bits = self._bits[start // 8 : (start + buffer.nbytes + 7) // 8]
        return np.unpackbits(bits, bitorder="little")[: buffer.nbytes].astype(np.bool_)

    def forget_writes(self, buffer: Buffer) -> None:
        """Marks every byte of the buffer as never written."""
        start = buffer.address - self.base
        self._bits[start // 8 : (start + buffer.nbytes + 7) // 8] = 0

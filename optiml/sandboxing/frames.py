"""How the service and its workers talk: frames of a JSON header and raw blobs, over pipes. Nothing is ever unpickled.

A frame is a little-endian 32-bit length, that many bytes of JSON (an object whose `blobs` lists sizes in bytes), then
the blobs themselves. What a worker sends is as hostile as the candidate that ran in it: lengths are bounded, types
checked.
"""

import asyncio
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

__all__ = ["Bytes", "Frame", "ProtocolError", "read_frame", "receive", "send", "write_frame"]

Bytes: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct("<I")
_MOST_HEADER_BYTES = 8 << 20
_MOST_BLOBS = 256


class ProtocolError(Exception):
    """The other side sent no frame, or half of one, or nonsense."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    blobs: Sequence[Bytes] = ()


def _encoded(frame: Frame) -> bytes:
    header = json.dumps({**frame.header, "blobs": [len(blob) for blob in frame.blobs]}).encode()
    return _LENGTH.pack(len(header)) + header


def _decoded(text: bytes, most_blob_bytes: int) -> tuple[dict[str, Any], list[int]]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a header is no JSON") from error
    sizes = header.get("blobs") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or len(sizes) > _MOST_BLOBS or not all(type(size) is int for size in sizes):
        raise ProtocolError("a header is no object with a list of blob sizes")
    if any(size < 0 for size in sizes) or sum(sizes) > most_blob_bytes:
        raise ProtocolError(f"blobs of {sum(sizes)} bytes; at most {most_blob_bytes} are expected")
    return header, sizes


def _header_length(prefix: bytes) -> int:
    (length,) = _LENGTH.unpack(prefix)
    if length > _MOST_HEADER_BYTES:
        raise ProtocolError(f"a header of {length} bytes; at most {_MOST_HEADER_BYTES} are allowed")
    return int(length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if content is None or len(content) != size:
        raise ProtocolError("the stream ended in a frame")
    return content


def read_frame(stream: BinaryIO, most_blob_bytes: int = 1 << 40) -> Frame | None:
    """Read one frame, blocking; None when the stream ends between frames.

    Raises:
        ProtocolError: what came is no frame.
    """
    prefix = stream.read(_LENGTH.size)
    if not prefix:
        return None
    if len(prefix) != _LENGTH.size:
        raise ProtocolError("the stream ended in a frame")
    header, sizes = _decoded(_exactly(stream, _header_length(prefix)), most_blob_bytes)
    return Frame(header, [_exactly(stream, size) for size in sizes])


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Write one frame, blocking."""
    stream.write(_encoded(frame))
    stream.writelines(frame.blobs)
    stream.flush()


async def send(stream: asyncio.StreamWriter, frame: Frame) -> None:
    """Send one frame.

    Raises:
        ConnectionError: the other side is gone.
    """
    stream.write(_encoded(frame))
    for blob in frame.blobs:
        stream.write(blob)
    await stream.drain()


async def receive(stream: asyncio.StreamReader, most_blob_bytes: int) -> Frame:
    """Receive one frame.

    Raises:
        ProtocolError: the stream ended, or what came is no frame.
    """
    try:
        length = _header_length(await stream.readexactly(_LENGTH.size))
        header, sizes = _decoded(await stream.readexactly(length), most_blob_bytes)
        return Frame(header, [await stream.readexactly(size) for size in sizes])
    except asyncio.IncompleteReadError as error:
        raise ProtocolError("the stream ended") from error

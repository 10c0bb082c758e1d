"""Frames go through unharmed; what is none is refused before memory is spent on it."""

import io
import json
import struct

import pytest

from optiml.sandboxing.frames import Frame, ProtocolError, read_frame, write_frame


def _stream(header: object, tail: bytes = b"") -> io.BytesIO:
    text = json.dumps(header).encode()
    return io.BytesIO(struct.pack("<I", len(text)) + text + tail)


def test_a_frame_goes_through_unharmed() -> None:
    stream = io.BytesIO()
    write_frame(stream, Frame({"op": "run"}, [b"", b"\x00\xff", bytes(1000)]))
    write_frame(stream, Frame({"op": "next"}))
    stream.seek(0)
    first, second, end = read_frame(stream), read_frame(stream), read_frame(stream)
    assert first is not None
    assert second is not None
    assert (first.header["op"], list(first.blobs)) == ("run", [b"", b"\x00\xff", bytes(1000)])
    assert (second.header["op"], end) == ("next", None)


@pytest.mark.parametrize(
    "stream",
    [
        io.BytesIO(b"\x01"),
        io.BytesIO(struct.pack("<I", 1 << 31)),
        io.BytesIO(struct.pack("<I", 4) + b"nope"),
        io.BytesIO(struct.pack("<I", 200000) + b"[" * 200000),
        _stream([1]),
        _stream({}),
        _stream({"blobs": 3}),
        _stream({"blobs": ["3"]}),
        _stream({"blobs": [True]}),
        _stream({"blobs": [-1]}),
        _stream({"blobs": [1 << 40]}),
        _stream({"blobs": [1] * 300}, b"x" * 300),
        _stream({"blobs": [5]}, b"four"),
    ],
)
def test_what_is_no_frame_is_refused(stream: io.BytesIO) -> None:
    with pytest.raises(ProtocolError):
        read_frame(stream, most_blob_bytes=1 << 20)

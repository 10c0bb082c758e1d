"""Element types: how NumPy stores them, and the way to float64 and back.

bfloat16 has no NumPy type: it is stored as uint16 bit patterns and converted here.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from optiml.v1 import kernel_pb2

__all__ = ["Array", "Kind", "from_float64", "kind_of", "to_wide"]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One element type."""

    name: str
    """As a person writes it, "f32"."""
    storage: np.dtype[Any]
    """How buffers hold it."""
    is_float: bool
    unit_roundoff: float
    """Largest relative rounding error of one operation; 0 for integers."""
    largest: float
    """Largest finite value."""
    ptx_bytes: int

    @property
    def is_bfloat16(self) -> bool:
        """Whether `storage` holds bit patterns."""
        return self.name == "bf16"


def _float(name: str, storage: str, fraction_bits: int, largest: float) -> Kind:
    dtype = np.dtype(storage)
    return Kind(
        name, dtype, is_float=True, unit_roundoff=2.0**-fraction_bits, largest=largest, ptx_bytes=dtype.itemsize
    )


def _integer(name: str, storage: str) -> Kind:
    dtype = np.dtype(storage)
    largest = 1.0 if storage == "bool" else float(np.iinfo(dtype).max)
    return Kind(name, dtype, is_float=False, unit_roundoff=0.0, largest=largest, ptx_bytes=dtype.itemsize)


_KINDS: dict[int, Kind] = {
    kernel_pb2.DATA_TYPE_F16: _float("f16", "float16", 11, 65504.0),
    kernel_pb2.DATA_TYPE_BF16: _float("bf16", "uint16", 8, 3.3895313892515355e38),
    kernel_pb2.DATA_TYPE_F32: _float("f32", "float32", 24, float(np.finfo(np.float32).max)),
    kernel_pb2.DATA_TYPE_F64: _float("f64", "float64", 53, float(np.finfo(np.float64).max)),
    kernel_pb2.DATA_TYPE_I8: _integer("i8", "int8"),
    kernel_pb2.DATA_TYPE_U8: _integer("u8", "uint8"),
    kernel_pb2.DATA_TYPE_I16: _integer("i16", "int16"),
    kernel_pb2.DATA_TYPE_U16: _integer("u16", "uint16"),
    kernel_pb2.DATA_TYPE_I32: _integer("i32", "int32"),
    kernel_pb2.DATA_TYPE_U32: _integer("u32", "uint32"),
    kernel_pb2.DATA_TYPE_I64: _integer("i64", "int64"),
    kernel_pb2.DATA_TYPE_U64: _integer("u64", "uint64"),
    kernel_pb2.DATA_TYPE_BOOL: _integer("bool", "bool"),
}


def kind_of(data_type: kernel_pb2.DataType.ValueType) -> Kind:
    """Return what there is to know about an element type.

    Raises:
        KeyError: it is not set, or of a later version.
    """
    return _KINDS[data_type]


def from_float64(values: Array, kind: Kind) -> Array:
    """Round to the type, nearest even; out of range becomes infinity. Shape stays."""
    if not kind.is_bfloat16:
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(kind.storage)
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    is_nan = np.isnan(values)
    return np.where(is_nan, np.uint16(0x7FC0), rounded.astype(np.uint16)).reshape(np.shape(values))


def to_wide(stored: Array, kind: Kind) -> Array:
    """Widen to float64 for floats; integers and booleans stay as they are. Shape stays."""
    if kind.is_bfloat16:
        widened = stored.astype(np.uint32) << np.uint32(16)
        return widened.view(np.float32).astype(np.float64)
    return stored.astype(np.float64) if kind.is_float else stored

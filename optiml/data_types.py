"""Element types: their short names in problem files, their sizes, and what C++ calls them."""

from typing import TypeAlias

from optiml.v1 import kernel_pb2

__all__ = ["CPP_NAMES", "NAMES", "SHORT_NAMES", "from_cpp", "is_float", "size_bytes"]

DataType: TypeAlias = kernel_pb2.DataType.ValueType

NAMES: dict[str, DataType] = {
    name.removeprefix("DATA_TYPE_").lower(): value
    for name, value in kernel_pb2.DataType.items()
    if value != kernel_pb2.DATA_TYPE_UNSPECIFIED
}
SHORT_NAMES: dict[DataType, str] = {value: name for name, value in NAMES.items()}

CPP_NAMES: dict[DataType, str] = {
    kernel_pb2.DATA_TYPE_F16: "__half",
    kernel_pb2.DATA_TYPE_BF16: "__nv_bfloat16",
    kernel_pb2.DATA_TYPE_F32: "float",
    kernel_pb2.DATA_TYPE_F64: "double",
    kernel_pb2.DATA_TYPE_I8: "signed char",
    kernel_pb2.DATA_TYPE_U8: "unsigned char",
    kernel_pb2.DATA_TYPE_I16: "short",
    kernel_pb2.DATA_TYPE_U16: "unsigned short",
    kernel_pb2.DATA_TYPE_I32: "int",
    kernel_pb2.DATA_TYPE_U32: "unsigned int",
    kernel_pb2.DATA_TYPE_I64: "long long",
    kernel_pb2.DATA_TYPE_U64: "unsigned long long",
    kernel_pb2.DATA_TYPE_BOOL: "bool",
}
_FROM_CPP = {name: value for value, name in CPP_NAMES.items()} | {
    "char": kernel_pb2.DATA_TYPE_I8,  # nvcc's plain char is signed on x86-64
    "long": kernel_pb2.DATA_TYPE_I64,
    "unsigned long": kernel_pb2.DATA_TYPE_U64,
}


def from_cpp(name: str) -> DataType | None:
    """Return the type of a canonical C++ name such as "unsigned int"; None if it is no element type of ours."""
    return _FROM_CPP.get(name.removeprefix("const ").removeprefix("volatile ").strip())


def is_float(data_type: DataType) -> bool:
    """Return whether values are floating point."""
    return SHORT_NAMES[data_type] in {"f16", "bf16", "f32", "f64"}


def size_bytes(data_type: DataType) -> int:
    """Return the size of one element."""
    name = SHORT_NAMES[data_type]
    return 1 if name == "bool" else int("".join(c for c in name if c.isdigit())) // 8

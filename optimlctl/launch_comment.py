"""A kernel without its host code, as a file that a person can use: the device code, and the launches in a comment."""

from optiml.v1 import kernel_pb2

__all__ = ["with_launches"]


def with_launches(kernel: kernel_pb2.Kernel) -> str:
    """Return the device code, headed by the launches that it needs."""
    lines = [f"//   {_launch(launch)}" for launch in kernel.launches]
    lines += [f"//   scratch {scratch.name}: {scratch.elements} elements" for scratch in kernel.scratch]
    if not lines:
        return kernel.source
    return "\n".join(["// Launch it as follows:", *lines, "", kernel.source])


def _launch(launch: kernel_pb2.Launch) -> str:
    shape = [f"dim3({', '.join(launch.grid) or '1'})", f"dim3({', '.join(launch.block) or '1'})"]
    if launch.dynamic_shared_memory_bytes:
        shape.append(launch.dynamic_shared_memory_bytes)
    arguments = [
        argument.buffer if argument.WhichOneof("value") == "buffer" else argument.scalar.expression
        for argument in launch.arguments
    ]
    cooperative = ", by cudaLaunchCooperativeKernel" if launch.cooperative else ""
    return f"{launch.kernel}<<<{', '.join(shape)}>>>({', '.join(arguments)}){cooperative}"

"""Problems and right kernels that the profiler's tests start from."""

from optiml.v1 import kernel_pb2, problem_pb2

F32, F16, BF16 = kernel_pb2.DATA_TYPE_F32, kernel_pb2.DATA_TYPE_F16, kernel_pb2.DATA_TYPE_BF16
F64, I32 = kernel_pb2.DATA_TYPE_F64, kernel_pb2.DATA_TYPE_I32

RELU_SOURCE = """
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
"""

MATMUL_SOURCE = """
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
  }
}
"""


def sizes(*choices: dict[str, int]) -> list[problem_pb2.Size]:
    """Return sizes from plain mappings."""
    return [problem_pb2.Size(parameters=choice) for choice in choices]


def buffer(
    name: str, role: problem_pb2.Role.ValueType, *shape: str, dtype: kernel_pb2.DataType.ValueType = F32
) -> problem_pb2.Argument:
    """Return a buffer argument, drawn from [-1, 1) where it is drawn at all."""
    argument = problem_pb2.Argument(name=name, data_type=dtype, role=role, shape=shape)
    if role != problem_pb2.ROLE_OUT:
        argument.draw.uniform.low, argument.draw.uniform.high = -1.0, 1.0
    return argument


def relu_problem() -> problem_pb2.Problem:
    """y = max(x, 0)."""
    return problem_pb2.Problem(
        name="relu",
        parameters=[problem_pb2.Parameter(name="N")],
        arguments=[buffer("x", problem_pb2.ROLE_IN, "N"), buffer("y", problem_pb2.ROLE_OUT, "N")],
        reference=problem_pb2.Reference(numpy="y = np.maximum(x, 0)"),
        smoke=sizes({"N": 37}, {"N": 1003}),
        check=sizes({"N": 20000}),
        time=sizes({"N": 1 << 22}),
    )


def relu_kernel(source: str = RELU_SOURCE, *, grid: str = "ceil_div(N, 256)", block: str = "256") -> kernel_pb2.Kernel:
    """Return a kernel of relu's signature."""
    return kernel_pb2.Kernel(source=source, launches=[launch("relu", [grid], [block], "x", "y", "i32 N")])


def launch(kernel: str, grid: list[str], block: list[str], *arguments: str, shared: str = "") -> kernel_pb2.Launch:
    """Return a launch; an argument "i32 N" or "f32 a" is a scalar, any other a buffer."""
    types = {"i32": I32, "f32": F32}
    made = kernel_pb2.Launch(kernel=kernel, grid=grid, block=block, dynamic_shared_memory_bytes=shared)
    for argument in arguments:
        dtype, _, expression = argument.partition(" ")
        if expression:
            made.arguments.add(scalar=kernel_pb2.Scalar(data_type=types[dtype], expression=expression))
        else:
            made.arguments.add(buffer=argument)
    return made


def matmul_problem() -> problem_pb2.Problem:
    """C = A B."""
    return problem_pb2.Problem(
        name="matmul",
        parameters=[problem_pb2.Parameter(name=name) for name in "MNK"],
        arguments=[
            buffer("A", problem_pb2.ROLE_IN, "M", "K"),
            buffer("B", problem_pb2.ROLE_IN, "K", "N"),
            buffer("C", problem_pb2.ROLE_OUT, "M", "N"),
        ],
        reference=problem_pb2.Reference(numpy="C = A @ B"),
        smoke=sizes({"M": 37, "N": 29, "K": 31}),
        check=sizes({"M": 64, "N": 96, "K": 80}),
        time=sizes({"M": 1024, "N": 1024, "K": 1024}),
    )


def matmul_kernel(source: str = MATMUL_SOURCE, *, block: tuple[int, int] = (16, 16)) -> kernel_pb2.Kernel:
    """Return a kernel of matmul's signature."""
    x, y = block
    return kernel_pb2.Kernel(
        source=source,
        launches=[
            launch(
                "matmul", [f"ceil_div(N, {x})", f"ceil_div(M, {y})"], [str(x), str(y)],
                "A", "B", "C", "i32 M", "i32 N", "i32 K",
            )
        ],
    )  # fmt: skip

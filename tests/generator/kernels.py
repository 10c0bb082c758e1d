"""Naive kernels in varied styles, each with its launch plan."""

from optiml.v1 import kernel_pb2 as kernels

_SCALARS = {
    "int": kernels.DATA_TYPE_I32,
    "float": kernels.DATA_TYPE_F32,
    "unsigned": kernels.DATA_TYPE_U32,
    "size_t": kernels.DATA_TYPE_U64,
}


def kernel(source: str, name: str, grid: str, block: str, arguments: str) -> kernels.Kernel:
    """Make a kernel. Arguments: names of buffers, or `type:expression` for scalars; parts are divided by `;`."""
    launch = kernels.Launch(kernel=name, grid=grid.split(";"), block=block.split(";"))
    for argument in arguments.split(";"):
        kind, colon, expression = argument.partition(":")
        if colon:
            scalar = kernels.Scalar(data_type=_SCALARS[kind], expression=expression)
            launch.arguments.append(kernels.LaunchArgument(scalar=scalar))
        else:
            launch.arguments.append(kernels.LaunchArgument(buffer=argument))
    return kernels.Kernel(source=source, launches=[launch])


SOFTMAX = kernel(
    """
// one thread a row
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float m = x[row * cols];
    for (int j = 1; j < cols; j++) {
      if (x[row * cols + j] > m) m = x[row * cols + j];
    }
    float s = 0.0f;
    for (int j = 0; j < cols; j++) s += expf(x[row * cols + j] - m);
    for (int j = 0; j < cols; j++) {
      y[row * cols + j] = expf(x[row * cols + j] - m) / s;
    }
  }
}
""",
    "softmax", "ceil_div(R, 128)", "128", "x;y;int:R;int:C",
)  # fmt: skip

LAYER_NORM = kernel(
    """
#define EPSILON 1e-5f
extern "C" __global__ void layer_norm(const float* __restrict__ in, const float* __restrict__ gamma,
                                      const float* __restrict__ beta, float* __restrict__ out, size_t rows,
                                      size_t width) {
  size_t r = threadIdx.x + (size_t)blockIdx.x * blockDim.x;
  if (r >= rows) return;
  const float* line = in + r * width;
  float mean = 0.f, var = 0.f;
  for (size_t i = 0; i < width; ++i) mean = mean + line[i];
  mean /= width;
  for (size_t i = 0; i < width; ++i) {
    const float d = line[i] - mean;
    var += d * d;
  }
  const float inv = rsqrtf(var / width + EPSILON);
  for (size_t i = 0; i < width; ++i) out[r * width + i] = (line[i] - mean) * inv * gamma[i] + beta[i];
}
""",
    "layer_norm", "ceil_div(R, 64)", "64", "in;gamma;beta;out;size_t:R;size_t:C",
)  # fmt: skip

CROSS_ENTROPY = kernel(
    """
__global__ void cross_entropy(const float *logits, const int *labels, float *loss, int n, int classes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float biggest = -INFINITY;
    for (int c = 0; c < classes; c++)
        biggest = fmaxf(biggest, logits[i * classes + c]);
    float total = 0;
    for (int c = 0; c < classes; c++)
        total += expf(logits[i * classes + c] - biggest);
    loss[i] = logf(total) + biggest - logits[i * classes + labels[i]];
}
""",
    "cross_entropy", "ceil_div(N, 256)", "256", "logits;labels;loss;int:N;int:C",
)  # fmt: skip

ROW_SUM = kernel(
    """
__global__ void row_sum(float *a, float *out, unsigned rows, unsigned cols) {
  unsigned r = blockIdx.x * blockDim.x + threadIdx.x;
  if (rows > r) {
    float acc = out[r];
    for (unsigned c = 0; c < cols; c += 1) { acc = fmaf(a[r * cols + c], 2.0f, acc); }
    out[r] = acc;
  }
}
""",
    "row_sum", "ceil_div(R, 256)", "256", "a;out;unsigned:R;unsigned:C",
)  # fmt: skip

MATMUL = kernel(
    """
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
      sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
  }
}
""",
    "matmul", "ceil_div(N, 16);ceil_div(M, 16)", "16;16", "A;B;C;int:M;int:N;int:K",
)  # fmt: skip

GEMM_SWAPPED = kernel(
    """
// rows along x: neighbouring threads stride
#define BLK 16
static __device__ float activate(float v) { return v > 0.f ? v : 0.01f * v; }
__global__ void gemm_nt(const float* __restrict__ p, const float* __restrict__ q, float* r, const float* bias,
                        unsigned m, unsigned n, unsigned kk, float alpha, float beta) {
  const unsigned i = blockIdx.x * BLK + threadIdx.x, j = blockIdx.y * BLK + threadIdx.y;
  if (i >= m || j >= n) return;
  float acc = 0.f;
  const float* prow = p + i * kk;
  for (unsigned t = 0; t < kk; ++t) {
    float a = prow[t];
    float b = q[(size_t)j * kk + t];
    acc = fmaf(a, b, acc);
  }
  float v = alpha * acc + beta * r[i * n + j];
  v += bias[j];
  r[i * n + j] = activate(v);
}
""",
    "gemm_nt", "ceil_div(M, 16);ceil_div(N, 16)", "16;16",
    "A;B;C;D;unsigned:M;unsigned:N;unsigned:K;float:alpha;float:beta",
)  # fmt: skip

GEMM_LINEAR = kernel(
    """
__global__ void tn(const float* a, const float* b, float* c, int m, int n, int k) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= m * n) return;
  int y = idx / n;
  int x = idx % n;
  float acc = 0;
  for (int l = 0; l < k; l++) acc += a[l * m + y] * b[l * n + x];
  c[idx] = acc;
}
""",
    "tn", "ceil_div(M * N, 256)", "256", "A;B;C;int:M;int:N;int:K",
)  # fmt: skip

BATCHED = kernel(
    """
__global__ void bmm(const float* a, const float* b, float* c, int batch, int m, int n, int k) {
  int z = blockIdx.z;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (z < batch && y < m && x < n) {
    float acc = 0;
    for (int l = 0; l < k; l++) acc += a[(z * m + y) * k + l] * b[(z * k + l) * n + x];
    c[(z * m + y) * n + x] = acc;
  }
}
""",
    "bmm", "ceil_div(N, 32);ceil_div(M, 8);B", "32;8", "A;B;C;int:B;int:M;int:N;int:K",
)  # fmt: skip

TRANSPOSE = kernel(
    """
#include <cuda_runtime.h>
__global__ void transpose(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[x * height + y] = in[y * width + x];
}
""",
    "transpose", "ceil_div(C, 16);ceil_div(R, 16)", "16;16", "in;out;int:C;int:R",
)  # fmt: skip

RELU = kernel(
    """
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
""",
    "relu", "ceil_div(N, 256)", "256", "x;y;int:N",
)  # fmt: skip

AXPY = kernel(
    """
template <typename T> __device__ T scaled(T a, T v) { return a * v; }
__global__ void __launch_bounds__(512) axpy(float alpha, const float* v, float* w, const float* shift, size_t count) {
  size_t id = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= count) return;
  float t = scaled(alpha, v[id]);
  if (t < 0.f) t = 0.1f * t;
  w[id] += t + shift[0];
}
""",
    "axpy", "ceil_div(N, 512)", "512", "float:2.0;x;y;b;size_t:N",
)  # fmt: skip

COLUMN_MAJOR_STENCIL = kernel(
    """
__global__ void stencil(const float* a, float* b, int h, int w) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  int c = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= h || c >= w) return;
  float up = r > 0 ? a[(r - 1) * w + c] : 0.f;
  float down = r < h - 1 ? a[(r + 1) * w + c] : 0.f;
  float left = c > 0 ? a[r * w + c - 1] : 0.f;
  float right = c < w - 1 ? a[r * w + c + 1] : 0.f;
  b[r * w + c] = 0.5f * a[r * w + c] + 0.125f * (up + down + left + right);
}
""",
    "stencil", "ceil_div(H, 16);ceil_div(W, 16)", "16;16", "a;b;int:H;int:W",
)  # fmt: skip

ATTENTION = kernel(
    """
constexpr int WIDTH = 64;
__global__ void attend(const float* Q, const float* K, const float* V, float* O, int n, float scale) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  const float* q = Q + (size_t)row * WIDTH;
  float top = -INFINITY;
  for (int j = 0; j < n; j++) {
    float score = 0.0f;
    for (int d = 0; d < WIDTH; d++) score += q[d] * K[j * WIDTH + d];
    top = fmaxf(top, score * scale);
  }
  float sum = 0.0f;
  float out[WIDTH];
  for (int d = 0; d < WIDTH; d++) out[d] = 0.0f;
  for (int j = 0; j < n; j++) {
    float score = 0.0f;
    for (int d = 0; d < WIDTH; d++) score += q[d] * K[j * WIDTH + d];
    float weight = expf(score * scale - top);
    sum += weight;
    for (int d = 0; d < WIDTH; d++) out[d] += weight * V[j * WIDTH + d];
  }
  for (int d = 0; d < WIDTH; d++) O[(size_t)row * WIDTH + d] = out[d] / sum;
}
""",
    "attend", "ceil_div(N, 128)", "128", "q;k;v;o;int:N;float:0.125",
)  # fmt: skip

MAXPOOL3D = kernel(
    """
__global__ void pool(const float* x, float* y, int planes, int D, int H, int W, int OD, int OH, int OW) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  int total = planes * OD * OH * OW;
  if (index >= total) return;
  int ow = index % OW;
  int oh = (index / OW) % OH;
  int od = (index / (OW * OH)) % OD;
  int p = index / (OW * OH * OD);
  float best = -3.4e38f;
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++)
      for (int c = 0; c < 2; c++)
        best = fmaxf(best, x[((p * D + od * 2 + a) * H + oh * 2 + b) * W + ow * 2 + c]);
  y[index] = best;
}
""",
    "pool", "ceil_div(N * C * (D // 2) * (H // 2) * (W // 2), 256)", "256",
    "x;y;int:N * C;int:D;int:H;int:W;int:D // 2;int:H // 2;int:W // 2",
)  # fmt: skip

TEMPLATE_ROWS = kernel(
    """
#define AT(p, i, j) (p)[(i) * width + (j)]
__device__ float twice(const float* p, int at) { return p[at] * 2.0f; }
template <typename T>
__global__ void template_rows(const T* in, T* out, int height, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= height) return;
  T low = AT(in, i, 0);
  for (int j = 0; j < width; j++) low = min(low, AT(in, i, j));
  T all = 0;
  for (int j = 0; j < width; j++) all += twice(in, i * width + j) - low;
  out[i] = all;
}
""",
    "template_rows<float>", "ceil_div(R, 64)", "64", "a;out;int:R;int:C",
)  # fmt: skip

ONLINE_SOFTMAX = kernel(
    """
__global__ void online(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float m = -INFINITY, s = 0.f;
  for (int j = 0; j < cols; j++) {
    float v = x[row * cols + j];
    float top = fmaxf(m, v);
    s = s * expf(m - top) + expf(v - top);
    m = top;
  }
  y[row] = m + logf(s);
}
""",
    "online", "ceil_div(R, 64)", "64", "x;y;int:R;int:C",
)  # fmt: skip

COLUMN_SUM = kernel(
    """
__global__ void column_sum(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float s = 0.f;
  for (int r = 0; r < rows; r++) s += x[r * cols + c];
  y[c] = s;
}
""",
    "column_sum", "ceil_div(C, 64)", "64", "x;y;int:R;int:C",
)  # fmt: skip

NO_GUARD_MATMUL = kernel(
    """
__global__ void unguarded(const float* A, const float* B, float* C, int N) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < N; k++) sum += A[row * N + k] * B[k * N + col];
  C[row * N + col] = sum;
}
""",
    "unguarded", "N // 16;N // 16", "16;16", "A;B;C;int:N",
)  # fmt: skip

TRIANGULAR = kernel(
    """
__global__ void triangular(const float* A, const float* B, float* C, int N) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N || col >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < row; k++) sum += A[row * N + k] * B[k * N + col];
  C[row * N + col] = sum;
}
""",
    "triangular", "ceil_div(N, 16);ceil_div(N, 16)", "16;16", "A;B;C;int:N",
)  # fmt: skip

SHIFTED = kernel(
    """
__global__ void shifted(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i + 1];
}
""",
    "shifted", "ceil_div(N, 256)", "256", "x;y;int:N",
)  # fmt: skip

SHIFTED_IN_PLACE = kernel(SHIFTED.source, "shifted", "ceil_div(N, 256)", "256", "x;x;int:N")

SHARED_ALREADY = kernel(
    """
__global__ void reversed(const float* x, float* y, int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = tile[blockDim.x - 1 - threadIdx.x];
}
""",
    "reversed", "ceil_div(N, 256)", "256", "x;y;int:N",
)  # fmt: skip

// Kernels that are right; each is compared with NumPy.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

extern "C" __global__ void matmul_naive(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}

template <int T>
__device__ void matmul_tile(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[T][T], right[T][T];
  int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
  float sum = 0;
  for (int from = 0; from < k; from += T) {
    int i = from + threadIdx.x, j = from + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0.0f;
    right[threadIdx.y][threadIdx.x] = j < k && column < n ? b[j * n + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int l = 0; l < T; l++) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  matmul_tile<16>(a, b, c, m, n, k);
}

extern "C" __global__ void relu4(const float4* x, float4* y, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  float4 v = x[i];
  y[i] = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
}

extern "C" __global__ void maxpool3d(const float* x, float* y, int depth, int height, int width, int window,
                                     int stride) {
  int od = (depth - window) / stride + 1, oh = (height - window) / stride + 1, ow = (width - window) / stride + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= od * oh * ow) return;
  int w = i % ow, h = i / ow % oh, d = i / (ow * oh);
  float best = -INFINITY;
  for (int z = 0; z < window; z++)
    for (int v = 0; v < window; v++)
      for (int u = 0; u < window; u++)
        best = fmaxf(best, x[((d * stride + z) * height + h * stride + v) * width + w * stride + u]);
  y[i] = best;
}

__device__ float block_reduce(float v, bool maximum, float* partial) {
  for (int o = 16; o; o >>= 1) {
    float other = __shfl_down_sync(~0u, v, o);
    v = maximum ? fmaxf(v, other) : v + other;
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = partial[0];
  for (int w = 1; w < blockDim.x / 32; w++) v = maximum ? fmaxf(v, partial[w]) : v + partial[w];
  __syncthreads();
  return v;
}
extern "C" __global__ void softmax(const float* x, float* y, int n) {
  __shared__ float partial[32];
  x += (size_t)blockIdx.x * n, y += (size_t)blockIdx.x * n;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, x[i]);
  most = block_reduce(most, true, partial);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(x[i] - most);
  sum = block_reduce(sum, false, partial);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - most) / sum;
}

extern __shared__ int dynamic[];
extern "C" __global__ void block_scan(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* now = dynamic;
  int* next = dynamic + blockDim.x;
  now[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int o = 1; o < blockDim.x; o *= 2) {
    next[threadIdx.x] = now[threadIdx.x] + (threadIdx.x >= o ? now[threadIdx.x - o] : 0);
    __syncthreads();
    int* t = now;
    now = next;
    next = t;
  }
  if (i < n) y[i] = now[threadIdx.x];
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, long long n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (local[i]) atomicAdd(&bins[i], local[i]);
}

template <int PAD>
__device__ void transpose_tile(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][32 + PAD];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (c < columns && r + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (c < rows && r + i < columns) y[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" __global__ void transpose(const float* x, float* y, int r, int c) { transpose_tile<0>(x, y, r, c); }
extern "C" __global__ void transpose_padded(const float* x, float* y, int r, int c) { transpose_tile<1>(x, y, r, c); }

extern "C" __global__ void stencil(const float* x, float* y, int n) {
  __shared__ float s[128 + 2];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x + 1] = i < n ? x[i] : 0;
  if (threadIdx.x == 0) s[0] = i > 0 ? x[i - 1] : 0;
  if (threadIdx.x == 127) s[129] = i + 1 < n ? x[i + 1] : 0;
  __syncthreads();
  if (i < n) y[i] = 0.25f * s[threadIdx.x] + 0.5f * s[threadIdx.x + 1] + 0.25f * s[threadIdx.x + 2];
}

extern "C" __global__ void bitonic_sort(int* x) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j; j /= 2) {
      __syncthreads();
      int other = t ^ j;
      if (other > t && (s[t] > s[other]) == ((t & k) == 0)) {
        int v = s[t];
        s[t] = s[other];
        s[other] = v;
      }
    }
  __syncthreads();
  x[blockIdx.x * 256 + t] = s[t];
}

extern "C" __global__ void half_axpy(const __half2* x, __half2* y, __half a, int n2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n2) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}
extern "C" __global__ void bfloat_scale(const __nv_bfloat16* x, __nv_bfloat16* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2bfloat16(__bfloat162float(x[i]) * a) + __float2bfloat16(1.0f);
}

__device__ __noinline__ double polynomial(double x, const double* coefficients, int n) {
  double r = 0;
  for (int i = n - 1; i >= 0; i--) r = r * x + coefficients[i];
  return r;
}
__constant__ double table[5] = {1.0, -0.5, 0.25, 3.0, -2.0};
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
extern "C" __global__ void calls(const double* x, double* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = polynomial(x[i], table, 5) + factorial(i % 10);
}

extern "C" __global__ void switched(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], r;
  switch (v) {
    case 0: r = v * 7 + i; break;
    case 1: r = v - i * 3; break;
    case 2: r = (v ^ i) << 2; break;
    case 3: r = i / 3; break;
    case 4: r = i % 5; break;
    case 5: r = -i; break;
    case 6: r = i * i; break;
    case 7: r = ~i; break;
    default: r = 12345;
  }
  y[i] = r;
}

struct Affine { float scale; int shift[3]; double offset; char last; };
extern "C" __global__ void structured(const float* x, float* y, Affine p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * p.scale + p.shift[i % 3] + (float)p.offset + p.last;
}

extern "C" __global__ void far_index(const unsigned char* x, unsigned char* y, long long from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[from + i];
}

extern "C" __global__ void pipelined(const float4* x, float4* y, int tiles) {
  __shared__ float4 s[2][64];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(float4));
  __pipeline_commit();
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) __pipeline_memcpy_async(&s[(i + 1) % 2][t], &x[(i + 1) * 64 + t], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    y[i * 64 + t] = s[i % 2][63 - t];
    __syncthreads();
  }
}

__device__ unsigned ticket = 0;
extern "C" __global__ void sum_last_block(const float* x, float* partial, float* out, int n) {
  __shared__ float s[32];
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  v = block_reduce(v, false, s);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  v = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0;
  v = block_reduce(v, false, s);
  if (threadIdx.x == 0) *out = v;
}

// Chained scan over blocks: each waits for its predecessor's flag.
extern "C" __global__ void chained(const int* x, int* y, volatile int* sums, volatile int* flags, int n) {
  __shared__ int total, before;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&total, i < n ? x[i] : 0);
  __syncthreads();
  if (threadIdx.x == 0) {
    before = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {}
      __threadfence();
      before = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + total;
    __threadfence();
    flags[blockIdx.x] = 1;
  }
  __syncthreads();
  if (i < n) y[i] = before + total;
}

extern "C" __global__ void locked(int* lock, int* counter) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *(volatile int*)counter += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void compact(const float* x, int* out, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, base = 0;
  bool keep = i < n && x[i] > 0;
  unsigned votes = __ballot_sync(~0u, keep);
  if (lane == 0 && votes) base = atomicAdd(count, __popc(votes));
  base = __shfl_sync(~0u, base, 0);
  if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = i;
}

struct Node { int value; const int* place; float weights[3]; };
__device__ int cell = 42;
__device__ Node node = {7, &cell, {0.5f, 1.5f, -2.0f}};
__device__ const char* word = "gpu";
__device__ float zeros[4];
extern "C" __global__ void initialised(float* y) {
  y[0] = node.value + *node.place, y[1] = node.weights[0] + node.weights[1] + node.weights[2];
  y[2] = word[0] + word[2], y[3] = zeros[threadIdx.x];
  cell = 1, zeros[0] = 9;
}

extern "C" __global__ void generic_pointers(const int* x, int* y, int n) {
  __shared__ int s[64];
  int mine[4] = {1, 2, 3, 4};
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const int* p = n % 3 == 0 ? x : n % 3 == 1 ? s : mine;
  y[threadIdx.x] = p[n % 3 == 2 ? threadIdx.x % 4 : 63 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) bounded(int* y) { y[threadIdx.x] = 1; }
extern "C" __global__ void idle() {}

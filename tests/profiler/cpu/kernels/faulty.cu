// Kernels that are wrong; each must be told what is wrong, at its line.
#include <cuda_pipeline.h>

extern "C" __global__ void missing_barrier(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16], right[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int from = 0; from < n; from += 16) {
    left[threadIdx.y][threadIdx.x] = a[row * n + from + threadIdx.x];  // LINE missing_barrier
    right[threadIdx.y][threadIdx.x] = b[(from + threadIdx.y) * n + column];
    __syncthreads();
    for (int l = 0; l < 16; l++) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
  }
  c[row * n + column] = sum;
}

extern "C" __global__ void halo_off_by_one(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i + 1];  // LINE halo_off_by_one
}

extern "C" __global__ void shared_overrun(float* y) {
  __shared__ float s[64];
  s[threadIdx.x + 1] = threadIdx.x;  // LINE shared_overrun
  __syncthreads();
  y[threadIdx.x] = threadIdx.x ? s[threadIdx.x] : 0;
}

extern "C" __global__ void divergent_barrier(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 32) {
    __syncthreads();  // LINE divergent_barrier
    y[threadIdx.x] = s[63 - threadIdx.x];
  } else {
    y[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
  }
}

extern "C" __global__ void different_barriers(float* y) {
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1;");  // LINE different_barriers
  else
    asm volatile("bar.sync 2;");
  y[threadIdx.x] = 1;
}

extern "C" __global__ void endless(volatile int* flag) {
  while (*flag == 0) {}
}
extern "C" __global__ void endless_quiet(int* x, int n) {
  unsigned v = threadIdx.x;
  for (unsigned i = 0; i != n * 2u + 1u; i += 2) v = v * 3 + i;  // wraps around and misses its end
  x[threadIdx.x] = v;
}

extern "C" __global__ void odd_float4(const float* x, float4* y) {
  y[threadIdx.x] = *(const float4*)(x + 1 + 4 * threadIdx.x);  // LINE odd_float4
}

extern "C" __global__ void early_return(const float* x, float* y, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = x[i];
  __syncthreads();  // LINE early_return
  y[i] = s[threadIdx.x ^ 1];
}

extern "C" __global__ void uninitialised_shared(float* y) {
  __shared__ float s[64];
  if (threadIdx.x < 60) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];  // LINE uninitialised_shared
}
extern "C" __global__ void uninitialised_global(const float* scratch, float* y) {
  y[threadIdx.x] = scratch[threadIdx.x];  // LINE uninitialised_global
}

extern "C" __global__ void plain_histogram(const unsigned char* x, unsigned* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) bins[x[i]] += 1;  // LINE plain_histogram
}

extern "C" __global__ void wrapping_guard(const float* x, float* y, unsigned n) {
  unsigned i = threadIdx.x;
  if (i - 1 < n) y[i] = x[i - 1];
  if (i <= n - 1) y[i] += x[i + 1];  // LINE wrapping_guard
}

extern "C" __global__ void in_place_stencil(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) x[i] = x[i + 1] * 0.5f;  // LINE in_place_stencil
}

__device__ unsigned ticket;
extern "C" __global__ void no_fence(float* partial, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = blockIdx.x;
    last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) atomicAdd(out, partial[threadIdx.x]);  // LINE no_fence
}

extern "C" __global__ void copy_not_waited(const float4* x, float4* y) {
  __shared__ float4 s[64];
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];  // LINE copy_not_waited
}

extern "C" __global__ void local_overrun(int* y, int n) {
  int mine[8];
  for (int i = 0; i < 8; i++) mine[i] = i * n;
  y[threadIdx.x] = mine[threadIdx.x + n];  // LINE local_overrun
}

__device__ __noinline__ int forever(int n) { return n == -1 ? 0 : forever(n + 1) * 3 + 1; }
extern "C" __global__ void runaway_recursion(int* y) { y[threadIdx.x] = forever(threadIdx.x); }

extern "C" __global__ void null_pointer(int* y) {
  int* p = nullptr;
  asm volatile("" : "+l"(p));
  y[0] = *p;  // LINE null_pointer
}
extern "C" __global__ void wild_pointer(int* y, long long far) { y[far] = 1; }
extern "C" __global__ void trapping(int* y) { if (y[0] == 0) __trap(); }
extern "C" __global__ void table_overrun(int* y, int n) {
  __shared__ int unused[4];
  unused[threadIdx.x % 4] = n;
  y[threadIdx.x] = ((const int*)&ticket)[n];  // LINE table_overrun
}

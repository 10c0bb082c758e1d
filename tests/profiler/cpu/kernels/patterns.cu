// Ways to share data that are right and must cause no report. Each writes threadIdx-independent sums or permutations
// that the test knows. All take (const int* x, int* y) with one block of 128 threads.
#include <cuda_fp16.h>

extern "C" __global__ void warp_private_rows(const int* x, int* y) {
  __shared__ int s[4][33];
  int w = threadIdx.x / 32, l = threadIdx.x % 32;
  s[w][l] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = s[w][31 - l];
  __syncwarp();
  s[w][l] = 0;
}
extern "C" __global__ void two_buffers_one_barrier(const int* x, int* y) {
  __shared__ int s[2][128];
  int sum = 0;
  for (int i = 0; i < 6; i++) {
    s[i % 2][threadIdx.x] = x[threadIdx.x] + i;
    __syncthreads();
    sum += s[i % 2][127 - threadIdx.x];
  }
  y[threadIdx.x] = sum;
}
extern "C" __global__ void same_flag_from_all(const int* x, int* y) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (x[threadIdx.x] >= 0) found = 1;
  __syncthreads();
  y[threadIdx.x] = found;
}
extern "C" __global__ void neighbouring_bytes(const int* x, int* y) {
  __shared__ unsigned char s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void neighbouring_halves(const int* x, int* y) {
  __shared__ __half s[128];
  s[threadIdx.x] = __int2half_rn(x[threadIdx.x]);
  __syncthreads();
  const __half2* pairs = (const __half2*)s;
  __half2 v = pairs[threadIdx.x / 2];
  y[threadIdx.x] = __half2int_rn(threadIdx.x % 2 ? __low2half(v) : __high2half(v));
}
extern "C" __global__ void volatile_warp_reduction(const int* x, int* y) {
  __shared__ volatile int s[64];
  if (threadIdx.x < 64) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) {
    int t = threadIdx.x;
    for (int o = 32; o; o /= 2) {
      int v = s[t] + s[(t + o) % 64];
      __syncwarp();
      s[t] = v;
      __syncwarp();
    }
  }
  __syncthreads();
  y[threadIdx.x] = s[0];
}
extern "C" __global__ void producer_and_consumer(const int* x, int* y) {
  __shared__ int data[64];
  __shared__ int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x < 64) {
    data[threadIdx.x] = x[threadIdx.x];
    __threadfence_block();
    atomicAdd(&ready, 1);
  } else {
    while (*(volatile int*)&ready < 64) {}
    __threadfence_block();
    y[threadIdx.x] = data[127 - threadIdx.x];
  }
  if (threadIdx.x < 64) y[threadIdx.x] = 0;
}
extern "C" __global__ void broadcast_slot(const int* x, int* y) {
  __shared__ int slot, next;
  if (threadIdx.x == 0) next = 0;
  for (int i = 0; i < 4; i++) {
    __syncthreads();
    if (threadIdx.x == 0) slot = atomicAdd(&next, 32);
    __syncthreads();
    if (threadIdx.x < 32) y[slot + threadIdx.x] = x[slot + threadIdx.x];
  }
}
extern "C" __global__ void partial_barrier_pipeline(const int* x, int* y) {
  __shared__ int s[64];
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x < 64) {
      s[threadIdx.x] = x[threadIdx.x] + i;
      asm volatile("bar.arrive 1, 128;" ::: "memory");
      asm volatile("bar.sync 2, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      y[threadIdx.x] = s[127 - threadIdx.x];
      y[threadIdx.x - 64] = s[threadIdx.x - 64];
      asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  }
}

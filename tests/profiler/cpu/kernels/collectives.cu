// Warp collectives, atomics of every kind, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cassert>
#include <cstdio>
namespace cg = cooperative_groups;

// Row r of y, 32 wide, holds what lane l got from collective r.
extern "C" __global__ void collectives(unsigned* y) {
  unsigned t = threadIdx.x, row = 0;
  int same;
  auto put = [&](unsigned v) { y[32 * row++ + t] = v; };
  put(__shfl_up_sync(~0u, t, 3, 16));
  put(__shfl_down_sync(~0u, t, 5));
  put(__shfl_xor_sync(~0u, t, 9));
  put(__shfl_sync(~0u, t, t + 1, 8));
  put(__ballot_sync(~0u, t & 1));
  put(__any_sync(~0u, t == 7) + 2 * __all_sync(~0u, t < 32) + 4 * __all_sync(~0u, t < 31));
  put(__match_any_sync(~0u, t % 3));
  put(__match_all_sync(~0u, 5, &same) + same);
  put(__reduce_add_sync(~0u, t));
  put(__reduce_max_sync(0xffffu << (t / 16 * 16), t));
  put(__reduce_xor_sync(~0u, t * t));
  put(__reduce_min_sync(~0u, (int)t - 7));
  put(__syncthreads_or(t == 3) + 2 * __syncthreads_and(t == 3) + 4 * __syncthreads_count(t < 9));
  put(__activemask());
  put(t % 2 ? __activemask() : 0);
  unsigned v = t;
  if (t < 10) v = __shfl_sync(0x3ff, t, 9 - t);
  put(v);
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, __half2* h) {
  unsigned t = threadIdx.x;
  atomicAdd(i, t), atomicMin(i + 1, (int)t - 5), atomicMax(i + 2, t), atomicSub(i + 3, 2);
  atomicXor(u, t), atomicOr(u + 1, 1u << t), atomicAnd(u + 2, ~(1u << t)), atomicInc(u + 3, 10), atomicDec(u + 4, 10);
  atomicAdd(l, (unsigned long long)t << 33), atomicMax(l + 1, (unsigned long long)t << 40);
  atomicAdd(f, 0.5f * t), atomicAdd(d, 0.25 * t), atomicAdd(h, __half2{1, 2});
  unsigned long long old = l[2], seen;
  do {
    seen = old;
    old = atomicCAS(l + 2, seen, seen * 3 + 1);
  } while (seen != old);
}

extern "C" __global__ void grid_reverse(int* a, int n) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
  if (i < n) a[i] = i;
  grid.sync();
  int v = i < n ? a[n - 1 - i] : 0;
  grid.sync();
  if (i < n) a[i] = 2 * v;
}
extern "C" __global__ void tile_sums(const float* x, float* y) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  y[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
}
extern "C" __global__ void coalesced_count(int* c) {
  if (threadIdx.x % 3) return;
  auto group = cg::coalesced_threads();
  if (group.thread_rank() == 0) atomicAdd(c, (int)group.size());
}
extern "C" __global__ void asserting(int* x) {
  printf("x is %d\n", x[0]);
  assert(x[0] == 0);
  x[0] = 5;
}

// Warps 0 and 1 meet at barrier 1 only, warps 2 and 3 at barrier 2.
extern "C" __global__ void named_barriers(int* y) {
  __shared__ int s[128];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
  y[threadIdx.x] = s[threadIdx.x ^ 32];
}
extern "C" __global__ void wrong_named_barriers(int* y) {
  __shared__ int s[128];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
  y[threadIdx.x] = s[threadIdx.x ^ 64];
}

// A library's block primitive: much code that is not ours.
#include <cub/block/block_radix_sort.cuh>

extern "C" __global__ void block_sort(const int* x, int* y) {
  using Sort = cub::BlockRadixSort<int, 128, 4>;
  __shared__ typename Sort::TempStorage storage;
  int v[4];
  for (int i = 0; i < 4; i++) v[i] = x[threadIdx.x * 4 + i];
  Sort(storage).Sort(v);
  for (int i = 0; i < 4; i++) y[threadIdx.x * 4 + i] = v[i];
}

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                  \
  do {                                                                               \
    cudaError_t status = (call);                                                     \
    if (status != cudaSuccess) {                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static inline int div_up(int a, int b) { return (a + b - 1) / b; }

__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

void launch_add(const float* a, const float* b, float* c, int count) {
  const int threads = 256;
  add<<<div_up(count, threads), threads>>>(a, b, c, count);
  CHECK(cudaGetLastError());
}

int main() {
  int n = 1 << 20;
  size_t bytes = n * sizeof(float);
  float *d_a = NULL, *d_b = NULL, *d_c = NULL;
  CHECK(cudaMalloc((void**)&d_a, bytes));
  CHECK(cudaMalloc((void**)&d_b, bytes));
  CHECK(cudaMalloc((void**)&d_c, bytes));
  launch_add(d_a, d_b, d_c, n);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(d_a));
  CHECK(cudaFree(d_b));
  CHECK(cudaFree(d_c));
  return 0;
}

#include <cstdio>

__device__ int above;

__global__ void threshold(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] > 0.5f;
  if (x[i] > 0.5f) atomicAdd(&above, 1);
}

int main() {
  int n = 1 << 20, count = 0;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  threshold<<<(n + 255) / 256, 256>>>(x, y, n);
  cudaMemcpyFromSymbol(&count, above, sizeof(int));
  printf("%d\n", count);
}

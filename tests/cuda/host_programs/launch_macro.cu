#include <cstdio>

#define LAUNCH(kernel, grid, block, ...) \
  do {                                   \
    kernel<<<grid, block>>>(__VA_ARGS__); \
    if (cudaGetLastError() != cudaSuccess) printf("failed\n"); \
  } while (0)

__global__ void shift(const float* x, float* y, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + by;
}

int main() {
  int n = 1 << 20;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  LAUNCH(shift, (n + 255) / 256, 256, x, y, 1.5f, n);
  cudaDeviceSynchronize();
}

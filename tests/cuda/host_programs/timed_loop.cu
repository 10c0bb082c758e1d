#include <cstdio>

#define N 4096
#define ITERATIONS 20

__global__ void scale_rows(const float* x, const float* s, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y;
  if (c < cols && r < rows) y[r * cols + c] = x[r * cols + c] * s[r];
}

int main() {
  float *x, *s, *y;
  cudaMalloc(&x, N * N * sizeof(float));
  cudaMalloc(&s, N * sizeof(float));
  cudaMalloc(&y, N * N * sizeof(float));
  dim3 block(128);
  dim3 grid((N + block.x - 1) / block.x, N);
  scale_rows<<<grid, block>>>(x, s, y, N, N);  // warm-up
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  for (int i = 0; i < ITERATIONS; ++i) {
    scale_rows<<<grid, block>>>(x, s, y, N, N);
  }
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  float ms;
  cudaEventElapsedTime(&ms, start, stop);
  printf("%.3f ms\n", ms / ITERATIONS);
}

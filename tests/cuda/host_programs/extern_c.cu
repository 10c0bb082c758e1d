#include <cuda_runtime.h>

extern "C" {

__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

void run_saxpy(int n, float a, const float* x, float* y) { saxpy<<<(n + 511) / 512, 512>>>(n, a, x, y); }

}

int main() {
  int n = 12345;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  run_saxpy(n, 3.0f, x, y);
  cudaDeviceSynchronize();
}

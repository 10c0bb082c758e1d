#include <cuda_runtime.h>

__global__ void scale(float* x, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= s;
}

int main() {
  const int batch = 8, n = 4096;
  float* x;
  cudaMalloc(&x, batch * n * sizeof(float));
  for (int b = 0; b < batch; b++) scale<<<(n + 255) / 256, 256>>>(x + b * n, 2.0f, n);
  cudaDeviceSynchronize();
}

#include <cuda_runtime.h>

__global__ void clamp(const float* in, float* out, float low, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] < low ? low : in[i];
}

int main() {
  int n = 100000;
  float low = 0.25f;
  float *in = nullptr, *out = nullptr;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  void* args[] = {&in, &out, &low, &n};
  dim3 grid((n + 255) / 256), block(256);
  cudaLaunchKernel((const void*)clamp, grid, block, args, 0, nullptr);
  cudaDeviceSynchronize();
  return 0;
}

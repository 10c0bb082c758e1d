#include <cuda_runtime.h>

__constant__ float weights[4] = {0.1f, 0.2f, 0.3f, 0.4f};
__device__ const int offsets[4] = {0, 1, 2, 3};

__global__ void weighted(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 4; k++) {
    int j = i + offsets[k];
    if (j < n) sum += weights[k] * in[j];
  }
  out[i] = sum;
}

int main() {
  int n = 300000;
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  weighted<<<(n + 191) / 192, 192>>>(in, out, n);
  cudaDeviceSynchronize();
}

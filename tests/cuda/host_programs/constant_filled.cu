#include <cuda_runtime.h>

#define RADIUS 3

__constant__ float taps[2 * RADIUS + 1];

__global__ void convolve(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = -RADIUS; k <= RADIUS; k++)
    if (i + k >= 0 && i + k < n) sum += taps[k + RADIUS] * in[i + k];
  out[i] = sum;
}

int main() {
  int n = 1 << 20;
  float host[2 * RADIUS + 1] = {1, 2, 3, 4, 3, 2, 1};
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpyToSymbol(taps, host, sizeof(host));
  convolve<<<(n + 255) / 256, 256>>>(in, out, n);
  cudaDeviceSynchronize();
}

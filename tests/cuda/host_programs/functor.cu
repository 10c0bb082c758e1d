#include <cuda_runtime.h>

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};

template <typename F>
__global__ void map(const float* x, float* y, int n, F f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = f(x[i]);
}

int main() {
  int n = 1 << 20;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  map<<<(n + 255) / 256, 256>>>(x, y, n, Square());
  cudaDeviceSynchronize();
}

#include <cuda_runtime.h>

#define ELEMENTWISE(NAME, EXPRESSION)                        \
  __global__ void NAME(const float* in, float* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;           \
    if (i < n) {                                             \
      float x = in[i];                                       \
      out[i] = EXPRESSION;                                   \
    }                                                        \
  }

ELEMENTWISE(cube, x* x* x)
ELEMENTWISE(half_of, 0.5f * x)

int main() {
  int n = 1 << 20;
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cube<<<(n + 255) / 256, 256>>>(in, out, n);
  cudaDeviceSynchronize();
}

#include <cstdlib>

template <int BLOCK>
__global__ void sum(const float* in, float* out, int n) {
  __shared__ float part[BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  part[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int s = BLOCK / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 1000000;
  constexpr int block = 128;
  int blocks = (n + block - 1) / block;
  float *in, *out;
  cudaMalloc((void**)&in, sizeof(float) * n);
  cudaMalloc((void**)&out, sizeof(float) * blocks);
  sum<block><<<blocks, block>>>(in, out, n);
  cudaDeviceSynchronize();
  return 0;
}

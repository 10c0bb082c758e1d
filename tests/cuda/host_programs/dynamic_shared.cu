#include <cuda_runtime.h>

__global__ void reverse_blocks(const int* in, int* out, int n) {
  extern __shared__ int staged[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) staged[threadIdx.x] = in[i];
  __syncthreads();
  int j = blockDim.x - 1 - threadIdx.x;
  if (i < n && blockIdx.x * blockDim.x + j < n) out[i] = staged[j];
}

int main() {
  int n = 1 << 20, threads = 256;
  int *in, *out;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, n * sizeof(int));
  size_t shared = threads * sizeof(int);
  reverse_blocks<<<(n + threads - 1) / threads, threads, shared>>>(in, out, n);
  cudaDeviceSynchronize();
}

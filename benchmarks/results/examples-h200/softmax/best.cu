// Softmax over each row, one thread per row.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

const int ROWS = 4096;
const int COLS = 16384;

// The max of `value` over the 256 threads of a block; every one of them gets it.
__device__ __forceinline__ float block_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  __shared__ float partial[8];
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int warp = 1; warp < 8; ++warp) {
    value = max(value, partial[warp]);
  }
  __syncthreads();  // before the next use of `partial`
  return value;
}

// The sum of `value` over the 256 threads of a block; every one of them gets it.
__device__ __forceinline__ float block_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  __shared__ float partial[8];
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int warp = 1; warp < 8; ++warp) {
    value += partial[warp];
  }
  __syncthreads();  // before the next use of `partial`
  return value;
}

__global__ void softmax(const float* in, float* out, int rows, int cols) {
  // One block of 256 threads for each row: they read neighbouring elements and combine what they found.
  const int lane = threadIdx.x;
  int r = blockIdx.x;
  if (r >= rows) return;
  float m = -1e30f;
  for (int c = lane; c < cols; c += 256) m = fmaxf(m, in[r * cols + c]);
  m = block_max(m);
  float s = 0.f;
  for (int c = lane; c < cols; c += 256) s += expf(in[r * cols + c] - m);
  s = block_sum(s);
  for (int c = lane; c < cols; c += 256) out[r * cols + c] = expf(in[r * cols + c] - m) / s;
}

int main() {
  std::vector<float> in(ROWS * COLS), out(ROWS * COLS);
  for (auto& x : in) x = 6.0f * rand() / RAND_MAX - 3.0f;
  float *d_in = nullptr, *d_out = nullptr;
  const size_t bytes = sizeof(float) * ROWS * COLS;
  cudaMalloc(&d_in, bytes);
  cudaMalloc(&d_out, bytes);
  cudaMemcpy(d_in, in.data(), bytes, cudaMemcpyHostToDevice);
  auto t0 = std::chrono::steady_clock::now();
  softmax<<<ROWS, 256>>>(d_in, d_out, ROWS, COLS);
  cudaDeviceSynchronize();
  auto t1 = std::chrono::steady_clock::now();
  cudaMemcpy(out.data(), d_out, bytes, cudaMemcpyDeviceToHost);
  double sum = 0;
  for (int c = 0; c < COLS; ++c) sum += exp(in[7 * COLS + c]);
  double expected = exp(in[7 * COLS + 5]) / sum;
  printf("out[7][5] = %g, expected %g; ", out[7 * COLS + 5], expected);
  printf("%.3f ms\n", std::chrono::duration<double, std::milli>(t1 - t0).count());
  cudaFree(d_in);
  cudaFree(d_out);
}

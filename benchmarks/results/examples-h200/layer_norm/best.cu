// Layer normalisation over each row with scale and shift, one thread per row.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

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

__global__ void layer_norm(const float* x, const float* gamma, const float* beta, float* y, unsigned rows, unsigned cols, float eps) {
  // One block of 256 threads for each row: they read neighbouring elements and combine what they found.
  const int lane = threadIdx.x;
  const unsigned int row = blockIdx.x;
  if (row < rows) {
    float mean = 0;
    for (unsigned int i = lane; i < cols; i += 256) mean += x[row * cols + i];
    mean = block_sum(mean);
    mean /= cols;
    float variance = 0;
    for (unsigned int i = lane; i < cols; i += 256) {
      float d = x[row * cols + i] - mean;
      variance += d * d;
    }
    variance = block_sum(variance);
    variance /= cols;
    const float inv = rsqrtf(variance + eps);
    for (unsigned int i = lane; i < cols; i += 256) {
      y[row * cols + i] = (x[row * cols + i] - mean) * inv * gamma[i] + beta[i];
    }
  }
}

int main() {
  const unsigned rows = 4096, cols = 16384;
  const float eps = 1e-5f;
  std::vector<float> x(rows * cols), gamma(cols), beta(cols), y(rows * cols);
  for (auto& v : x) v = 2.0f * rand() / RAND_MAX - 1.0f;
  for (auto& v : gamma) v = 0.5f + (float)rand() / RAND_MAX;
  for (auto& v : beta) v = (float)rand() / RAND_MAX - 0.5f;

  float *d_x, *d_gamma, *d_beta, *d_y;
  cudaMalloc(&d_x, rows * cols * sizeof(float));
  cudaMalloc(&d_gamma, cols * sizeof(float));
  cudaMalloc(&d_beta, cols * sizeof(float));
  cudaMalloc(&d_y, rows * cols * sizeof(float));
  cudaMemcpy(d_x, x.data(), rows * cols * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_gamma, gamma.data(), cols * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_beta, beta.data(), cols * sizeof(float), cudaMemcpyHostToDevice);

  const unsigned threads = 128;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin);
  layer_norm<<<rows, 256>>>(d_x, d_gamma, d_beta, d_y, rows, cols, eps);
  cudaEventRecord(end);
  cudaMemcpy(y.data(), d_y, rows * cols * sizeof(float), cudaMemcpyDeviceToHost);
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);

  double largest_error = 0;
  for (unsigned row = 0; row < rows; row += 999) {
    const float* in = x.data() + row * cols;
    double mean = 0, variance = 0;
    for (unsigned i = 0; i < cols; i++) mean += in[i] / (double)cols;
    for (unsigned i = 0; i < cols; i++) variance += (in[i] - mean) * (in[i] - mean) / cols;
    double expected = (in[3] - mean) / sqrt(variance + eps) * gamma[3] + beta[3];
    largest_error = fmax(largest_error, fabs(expected - y[row * cols + 3]));
  }
  printf("largest error %g, %.3f ms\n", largest_error, ms);
  cudaFree(d_x);
  cudaFree(d_gamma);
  cudaFree(d_beta);
  cudaFree(d_y);
  return largest_error < 1e-3 ? 0 : 1;
}

// loss[r] = log(sum(exp(x[r]))) - x[r][label[r]], one thread per row.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

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

__global__ void cross_entropy(const float* logits, const int* labels, float* loss, int rows, int classes) {
  // One block of 256 threads for each row: they read neighbouring elements and combine what they found.
  const int lane = threadIdx.x;
  int row = blockIdx.x;
  if (row < rows) {
    const float* x = logits + (size_t)row * classes;
    float top = x[0];
    for (int c = 1 + lane; c < classes; c += 256) {
      if (x[c] > top) top = x[c];
    }
    top = block_max(top);
    float sum = 0.0f;
    for (int c = lane; c < classes; c += 256) {
      sum += expf(x[c] - top);
    }
    sum = block_sum(sum);
    if (lane == 0) loss[row] = logf(sum) + top - x[labels[row]];
  }
}

int main() {
  const int rows = 4096;
  const int classes = 16384;
  std::vector<float> logits((size_t)rows * classes), loss(rows);
  std::vector<int> labels(rows);
  for (float& x : logits) x = 8.0f * rand() / RAND_MAX - 4.0f;
  for (int& label : labels) label = rand() % classes;

  float *d_logits, *d_loss;
  int* d_labels;
  cudaMalloc(&d_logits, (size_t)rows * classes * sizeof(float));
  cudaMalloc(&d_labels, rows * sizeof(int));
  cudaMalloc(&d_loss, rows * sizeof(float));
  cudaMemcpy(d_logits, logits.data(), (size_t)rows * classes * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_labels, labels.data(), rows * sizeof(int), cudaMemcpyHostToDevice);

  auto start = std::chrono::steady_clock::now();
  cross_entropy<<<rows, 256>>>(d_logits, d_labels, d_loss, rows, classes);
  cudaDeviceSynchronize();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  cudaMemcpy(loss.data(), d_loss, rows * sizeof(float), cudaMemcpyDeviceToHost);

  int wrong = 0;
  for (int row = 0; row < rows; row += 1000) {
    double sum = 0.0;
    for (int c = 0; c < classes; c++) sum += exp((double)logits[(size_t)row * classes + c]);
    double expected = log(sum) - logits[(size_t)row * classes + labels[row]];
    if (fabs(loss[row] - expected) > 1e-3) wrong++;
  }
  printf("%d of the checked rows are wrong, %.3f ms\n", wrong, took.count());
  cudaFree(d_logits);
  cudaFree(d_labels);
  cudaFree(d_loss);
  return wrong != 0;
}

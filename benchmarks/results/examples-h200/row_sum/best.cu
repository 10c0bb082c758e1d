// sums[r] = sum of row r, one thread per row.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__device__ float element(const float* matrix, int row, int column, int columns) {
  return matrix[row * columns + column];
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

__global__ void row_sum(const float* matrix, float* sums, int rows, int columns) {
  // One block of 256 threads for each row: they read neighbouring elements and combine what they found.
  const int lane = threadIdx.x;
  int row = blockIdx.x;
  if (row < rows) {
    float total = 0;
    for (int column = lane; column < columns; column += 256) total += matrix[row * columns + column];
    total = block_sum(total);
    if (lane == 0) sums[row] = total;
  }
}

int main() {
  int rows = 4096, columns = 16384;
  std::vector<float> matrix(rows * columns), sums(rows);
  for (auto& value : matrix) value = 2.0f * rand() / RAND_MAX - 1.0f;
  float *d_matrix, *d_sums;
  cudaMalloc(&d_matrix, matrix.size() * sizeof(float));
  cudaMalloc(&d_sums, sums.size() * sizeof(float));
  cudaMemcpy(d_matrix, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice);

  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  for (int repeat = 0; repeat < 10; ++repeat) {
    row_sum<<<rows, 256>>>(d_matrix, d_sums, rows, columns);
  }
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  float ms = 0;
  cudaEventElapsedTime(&ms, start, stop);
  cudaMemcpy(sums.data(), d_sums, sums.size() * sizeof(float), cudaMemcpyDeviceToHost);
  double expected = 0;
  for (int column = 0; column < columns; ++column) expected += matrix[17 * columns + column];
  printf("sums[17] = %f, expected %f; %f ms\n", sums[17], expected, ms / 10);
  cudaFree(d_matrix);
  cudaFree(d_sums);
  return 0;
}

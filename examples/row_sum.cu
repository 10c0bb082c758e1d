// sums[r] = sum of row r, one thread per row.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__device__ float element(const float* matrix, int row, int column, int columns) {
  return matrix[row * columns + column];
}

__global__ void row_sum(const float* matrix, float* sums, int rows, int columns) {
  int row = threadIdx.x + blockIdx.x * blockDim.x;
  if (row < rows) {
    float total = 0;
    for (int column = 0; column < columns; ++column) total += element(matrix, row, column, columns);
    sums[row] = total;
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
    row_sum<<<(rows + 255) / 256, 256>>>(d_matrix, d_sums, rows, columns);
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

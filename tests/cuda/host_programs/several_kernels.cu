#include <cstdio>

__global__ void fill(float* x, float value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}

__global__ void column_sums(const float* m, float* sums, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float total = 0;
  for (int r = 0; r < rows; r++) total += m[r * cols + c];
  sums[c] = total;
}

int main() {
  int rows = 4096, cols = 2048;
  float *m, *sums;
  cudaMalloc(&m, rows * cols * sizeof(float));
  cudaMalloc(&sums, cols * sizeof(float));
  fill<<<(rows * cols + 255) / 256, 256>>>(m, 1.0f, rows * cols);
  column_sums<<<(cols + 127) / 128, 128>>>(m, sums, rows, cols);
  float first;
  cudaMemcpy(&first, sums, sizeof(float), cudaMemcpyDeviceToHost);
  printf("%f\n", first);
}

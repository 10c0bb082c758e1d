// C = A * B, row major, one thread per element of C.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
      sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
  }
}

int main() {
  const int M = 2048, N = 2048, K = 2048;
  std::vector<float> a(M * K), b(K * N), c(M * N);
  for (float& x : a) x = 2.0f * rand() / RAND_MAX - 1.0f;
  for (float& x : b) x = 2.0f * rand() / RAND_MAX - 1.0f;

  float *d_a, *d_b, *d_c;
  cudaMalloc(&d_a, M * K * sizeof(float));
  cudaMalloc(&d_b, K * N * sizeof(float));
  cudaMalloc(&d_c, M * N * sizeof(float));
  cudaMemcpy(d_a, a.data(), M * K * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_b, b.data(), K * N * sizeof(float), cudaMemcpyHostToDevice);

  dim3 block(16, 16);
  dim3 grid((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  matmul<<<grid, block>>>(d_a, d_b, d_c, M, N, K);
  cudaEventRecord(stop);
  cudaMemcpy(c.data(), d_c, M * N * sizeof(float), cudaMemcpyDeviceToHost);

  float ms = 0.0f;
  cudaEventElapsedTime(&ms, start, stop);
  double expected = 0.0;
  for (int k = 0; k < K; k++) expected += double(a[5 * K + k]) * b[k * N + 7];
  printf("C[5][7] = %f, expected %f; %.3f ms\n", c[5 * N + 7], expected, ms);
  cudaFree(d_a);
  cudaFree(d_b);
  cudaFree(d_c);
  return 0;
}

// C = A * B, row major, one thread per element of C.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  // A block computes a 128 x 128 tile of the output; a thread, 8 x 8 elements of it in registers.
  // Each slice of 8 steps of the sum is read once a block, into shared memory.
  constexpr int TILE = 128, TILE_K = 8, PER_THREAD = 8, GROUP = 4;
  constexpr int THREADS_ALONG = TILE / PER_THREAD, THREADS = THREADS_ALONG * THREADS_ALONG;
  __shared__ __align__(16) float row_tile[TILE_K][TILE + 4];
  __shared__ __align__(16) float column_tile[TILE_K][TILE];
  // Four neighbouring elements at a time, so that one 16-byte load of shared memory gets them.
  const int thread = threadIdx.x;
  const int thread_row = thread / THREADS_ALONG * GROUP;
  const int thread_column = thread % THREADS_ALONG * GROUP;
  const int first_row = blockIdx.y * TILE;
  const int first_column = blockIdx.x * TILE;
  float sums[PER_THREAD][PER_THREAD] = {};
  for (int slice = 0; slice < K; slice += TILE_K) {
    for (int load = thread; load < TILE * TILE_K; load += THREADS) {
      const int row = first_row + load / TILE_K;
      const int k = slice + load % TILE_K;
      row_tile[load % TILE_K][load / TILE_K] = row < M && k < K ? A[row * K + k] : 0;
    }
    for (int load = thread; load < TILE * TILE_K; load += THREADS) {
      const int col = first_column + load % TILE;
      const int k = slice + load / TILE;
      column_tile[load / TILE][load % TILE] = col < N && k < K ? B[k * N + col] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < TILE_K; ++step) {
      float row_values[PER_THREAD];
      float column_values[PER_THREAD];
#pragma unroll
      for (int i = 0; i < PER_THREAD; ++i) {
        row_values[i] = row_tile[step][thread_row + i / GROUP * GROUP * THREADS_ALONG + i % GROUP];
        column_values[i] = column_tile[step][thread_column + i / GROUP * GROUP * THREADS_ALONG + i % GROUP];
      }
#pragma unroll
      for (int i = 0; i < PER_THREAD; ++i) {
#pragma unroll
        for (int j = 0; j < PER_THREAD; ++j) {
          sums[i][j] += row_values[i] * column_values[j];
        }
      }
    }
    __syncthreads();  // before the next slice overwrites the tiles
  }
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
      const int row = first_row + thread_row + i / GROUP * GROUP * THREADS_ALONG + i % GROUP;
      const int col =
          first_column + thread_column + j / GROUP * GROUP * THREADS_ALONG + j % GROUP;
      if (row < M && col < N) {
        float sum = sums[i][j];
        C[row * N + col] = sum;
      }
    }
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
  matmul<<<dim3((N + 127) / 128, (M + 127) / 128), 256>>>(d_a, d_b, d_c, M, N, K);
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

// out = transpose of in, one thread per element; the writes are strided.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) transpose(const float* in, float* out, int height, int width) {
  // A block moves 32 x 32 elements through shared memory, so that both reads and writes of a warp are of
  // neighbouring elements. The padding keeps a tile's column in 32 different banks.
  constexpr int TILE = 32, STRIPE = 8;  // each thread moves TILE / STRIPE elements
  __shared__ float tile[TILE][TILE + 1];
  const int first_read = blockIdx.y * TILE;
  const int first_written = blockIdx.x * TILE;
#pragma unroll
  for (int i = threadIdx.y; i < TILE; i += STRIPE) {
    const int x = first_read + threadIdx.x;
    const int y = first_written + i;
    if (x < width && y < height) {
      tile[i][threadIdx.x] = in[y * width + x];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < TILE; i += STRIPE) {
    const int x = first_read + i;
    const int y = first_written + threadIdx.x;
    if (x < width && y < height) {
      out[x * height + y] = tile[threadIdx.x][i];
    }
  }
}

int main() {
  const int height = 8192;
  const int width = 8192;
  const size_t bytes = (size_t)height * width * sizeof(float);
  float* in = (float*)malloc(bytes);
  float* out = (float*)malloc(bytes);
  for (int i = 0; i < height * width; i++) in[i] = (float)rand() / RAND_MAX;

  float *d_in, *d_out;
  cudaMalloc(&d_in, bytes);
  cudaMalloc(&d_out, bytes);
  cudaMemcpy(d_in, in, bytes, cudaMemcpyHostToDevice);

  dim3 threads(32, 8);
  dim3 blocks((width + threads.x - 1) / threads.x, (height + threads.y - 1) / threads.y);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  transpose<<<dim3((height + 31) / 32, (width + 31) / 32), dim3(32, 8)>>>(d_in, d_out, height, width);
  cudaEventRecord(stop);

  cudaMemcpy(out, d_out, bytes, cudaMemcpyDeviceToHost);
  float ms = 0.0f;
  cudaEventElapsedTime(&ms, start, stop);
  int wrong = 0;
  for (int i = 0; i < 1000; i++) wrong += out[(size_t)i * height + 7] != in[(size_t)7 * width + i];
  printf("%d wrong, %.3f ms\n", wrong, ms);
  cudaFree(d_in);
  cudaFree(d_out);
  free(in);
  free(out);
  return wrong != 0;
}

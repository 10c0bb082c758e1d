// out = transpose of in, one thread per element; the writes are strided.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void transpose(const float* in, float* out, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    out[x * height + y] = in[y * width + x];
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
  transpose<<<blocks, threads>>>(d_in, d_out, height, width);
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

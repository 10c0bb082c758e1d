// Softmax over each row, one thread per row.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

const int ROWS = 4096;
const int COLS = 16384;

__global__ void softmax(const float* in, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = -1e30f;
  for (int c = 0; c < cols; ++c) m = fmaxf(m, in[r * cols + c]);
  float s = 0.f;
  for (int c = 0; c < cols; ++c) s += expf(in[r * cols + c] - m);
  for (int c = 0; c < cols; ++c) out[r * cols + c] = expf(in[r * cols + c] - m) / s;
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
  softmax<<<(ROWS + 255) / 256, 256>>>(d_in, d_out, ROWS, COLS);
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

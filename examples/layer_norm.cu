// Layer normalisation over each row with scale and shift, one thread per row.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

template <typename T>
__global__ void layer_norm(const T* x, const T* gamma, const T* beta, T* y, unsigned rows, unsigned cols, float eps) {
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    T mean = 0;
    for (unsigned i = 0; i < cols; i++) mean += x[row * cols + i];
    mean /= cols;
    T variance = 0;
    for (unsigned i = 0; i < cols; i++) {
      T d = x[row * cols + i] - mean;
      variance += d * d;
    }
    variance /= cols;
    const T inv = rsqrtf(variance + eps);
    for (unsigned i = 0; i < cols; i++) {
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
  layer_norm<float><<<(rows + threads - 1) / threads, threads>>>(d_x, d_gamma, d_beta, d_y, rows, cols, eps);
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

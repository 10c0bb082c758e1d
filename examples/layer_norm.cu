// Layer normalisation over each row with scale and shift, one thread per row.
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
  layer_norm<float><<<(rows + threads - 1) / threads, threads>>>(d_x, d_gamma, d_beta, d_y, rows, cols, eps);
  cudaMemcpy(y.data(), d_y, rows * cols * sizeof(float), cudaMemcpyDeviceToHost);
  printf("y[0] = %f\n", y[0]);
  cudaFree(d_x);
  cudaFree(d_gamma);
  cudaFree(d_beta);
  cudaFree(d_y);
  return 0;
}

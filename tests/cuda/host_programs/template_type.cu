#include <cstdio>
#include <vector>

template <typename T>
__global__ void axpy(T a, const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
  const int n = 1 << 20;
  std::vector<double> host(n, 1.0);
  double *x, *y;
  cudaMalloc(&x, n * sizeof(double));
  cudaMalloc(&y, n * sizeof(double));
  cudaMemcpy(x, host.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  cudaMemcpy(y, host.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  axpy<double><<<(n + 255) / 256, 256>>>(2.0, x, y, n);
  cudaMemcpy(host.data(), y, n * sizeof(double), cudaMemcpyDeviceToHost);
  printf("%f\n", host[0]);
}

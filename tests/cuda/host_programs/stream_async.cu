#include <cstdio>
#include <vector>

__global__ void square(const int* in, int* out, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * in[i];
}

int main() {
  constexpr size_t n = 500000;
  std::vector<int> host(n);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  int *in, *out;
  cudaMallocAsync(&in, n * sizeof(int), stream);
  cudaMallocAsync(&out, n * sizeof(*out), stream);
  cudaMemcpyAsync(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream);
  square<<<(n + 127) / 128, 128, 0, stream>>>(in, out, n);
  cudaMemcpyAsync(host.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  cudaFreeAsync(in, stream);
  cudaFreeAsync(out, stream);
  cudaStreamDestroy(stream);
}

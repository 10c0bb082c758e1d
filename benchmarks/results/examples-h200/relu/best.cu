// y = max(x, 0), one thread per element.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__global__ void relu(const float *x, float *y, int n) {
  // A thread works on 4 neighbouring elements: one 16-byte load or store moves them all.
  constexpr int WIDTH = 4;
  const int group = blockIdx.x * blockDim.x + threadIdx.x;
  const int first = group * WIDTH;
  if (first + WIDTH <= n) {
    __align__(16) float y_values[WIDTH];
    __align__(16) float x_values[WIDTH];
    *reinterpret_cast<float4*>(x_values) = reinterpret_cast<const float4*>(x)[group];
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      y_values[lane] = x_values[lane] > 0.0f ? x_values[lane] : 0.0f;
    }
    reinterpret_cast<float4*>(y)[group] = *reinterpret_cast<const float4*>(y_values);
  } else {  // the last elements, if their number is no multiple
    for (int i = first; i < n; ++i) {
      y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
  }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1 << 26;
    size_t bytes = n * sizeof(float);
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; i++)
        x[i] = 2.0f * rand() / RAND_MAX - 1.0f;

    float *dx, *dy;
    cudaMalloc(&dx, bytes);
    cudaMalloc(&dy, bytes);
    cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice);
    auto start = std::chrono::high_resolution_clock::now();
    relu<<<(n + (4 * 256) - 1) / (4 * 256), 256>>>(dx, dy, n);
    cudaDeviceSynchronize();
    auto stop = std::chrono::high_resolution_clock::now();
    cudaMemcpy(y.data(), dy, bytes, cudaMemcpyDeviceToHost);

    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += y[i] != (x[i] > 0 ? x[i] : 0);
    printf("%d wrong, %.3f ms\n", wrong, std::chrono::duration<double, std::milli>(stop - start).count());
    cudaFree(dx);
    cudaFree(dy);
    return wrong != 0;
}

// One Jacobi step of a 5-point stencil; the border is left as it is.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define IDX(i, j) ((i) * width + (j))

__global__ void stencil5(const float* __restrict__ in, float* out, int height, int width) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < height - 1 && j > 0 && j < width - 1) {
    out[IDX(i, j)] = 0.2f * (in[IDX(i, j)] + in[IDX(i - 1, j)] + in[IDX(i + 1, j)] + in[IDX(i, j - 1)] + in[IDX(i, j + 1)]);
  }
}

int main() {
  const int height = 8192, width = 8192;
  const int cells = height * width;
  std::vector<float> grid(cells);
  for (int c = 0; c < cells; c++) grid[c] = (float)rand() / RAND_MAX;

  float *d_in, *d_out;
  cudaMalloc(&d_in, cells * sizeof(float));
  cudaMalloc(&d_out, cells * sizeof(float));
  cudaMemcpy(d_in, grid.data(), cells * sizeof(float), cudaMemcpyHostToDevice);

  dim3 block(16, 16);
  dim3 blocks((width + 15) / 16, (height + 15) / 16);
  stencil5<<<blocks, block>>>(d_in, d_out, height, width);
  cudaMemcpy(grid.data(), d_out, cells * sizeof(float), cudaMemcpyDeviceToHost);
  printf("grid[1][1] = %f\n", grid[width + 1]);
  cudaFree(d_in);
  cudaFree(d_out);
  return 0;
}

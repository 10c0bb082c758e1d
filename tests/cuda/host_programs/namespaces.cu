#include <cuda_runtime.h>

namespace image {
namespace detail {

constexpr int kTile = 16;

__device__ inline float luminance(float r, float g, float b) { return 0.299f * r + 0.587f * g + 0.114f * b; }

__global__ void to_gray(const float* rgb, float* gray, int width, int height) {
  int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  if (x >= width || y >= height) return;
  const float* pixel = rgb + 3 * (y * width + x);
  gray[y * width + x] = luminance(pixel[0], pixel[1], pixel[2]);
}

}  // namespace detail

void to_gray(const float* rgb, float* gray, int width, int height) {
  dim3 block(detail::kTile, detail::kTile);
  dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
  detail::to_gray<<<grid, block>>>(rgb, gray, width, height);
}

}  // namespace image

int main() {
  int width = 1920, height = 1080;
  float *rgb, *gray;
  cudaMalloc(&rgb, sizeof(float) * width * height * 3);
  cudaMalloc(&gray, sizeof(float) * width * height);
  image::to_gray(rgb, gray, width, height);
  cudaDeviceSynchronize();
}

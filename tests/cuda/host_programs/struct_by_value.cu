#include <cuda_runtime.h>

struct Image {
  float* data;
  int width, height;
};

__global__ void invert(Image image) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < image.width && y < image.height) image.data[y * image.width + x] = 1 - image.data[y * image.width + x];
}

int main() {
  Image image;
  image.width = 640;
  image.height = 480;
  cudaMalloc(&image.data, image.width * image.height * sizeof(float));
  invert<<<dim3((image.width + 127) / 128, image.height), 128>>>(image);
  cudaDeviceSynchronize();
}

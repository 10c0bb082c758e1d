#include <cstdio>

#define N 65536

__managed__ float values[N];

__global__ void square_all() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) values[i] *= values[i];
}

int main() {
  for (int i = 0; i < N; i++) values[i] = i;
  square_all<<<(N + 255) / 256, 256>>>();
  cudaDeviceSynchronize();
  printf("%f\n", values[3]);
}

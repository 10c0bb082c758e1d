#include <cstdlib>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define TILE 32

__global__ void transpose(const float* in, float* out, int rows, int cols) {
  int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
  if (r < rows && c < cols) out[c * rows + r] = in[r * cols + c];
}

int main(int argc, char** argv) {
  int rows = 2048;
  int cols = 1024;
  if (argc > 2) {
    rows = atoi(argv[1]);
    cols = atoi(argv[2]);
  }
  float *in, *out;
  const size_t bytes = (size_t)rows * cols * sizeof(float);
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  transpose<<<dim3(CEIL_DIV(cols, TILE), CEIL_DIV(rows, TILE)), dim3(TILE, TILE)>>>(in, out, rows, cols);
  return cudaDeviceSynchronize();
}

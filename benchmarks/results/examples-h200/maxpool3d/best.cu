// 3-D max pooling, window 3, stride 2, padding 1, over N*C volumes: one thread per output voxel.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define KERNEL 3
#define STRIDE 2
#define PADDING 1

__global__ void max_pool3d(const float* input, float* output, int volumes, int D, int H, int W, int OD, int OH, int OW) {
  // Each thread computes 4 outputs, a block apart along `index`: their loads are in flight together.
  constexpr int OUTPUTS = 4;
#pragma unroll
  for (int output2 = 0; output2 < OUTPUTS; ++output2) {
    const int index = (blockIdx.x * OUTPUTS + output2) * blockDim.x + threadIdx.x;
    int total = volumes * OD * OH * OW;
    if (index >= total) continue;

    int ow = index % OW;
    int oh = (index / OW) % OH;
    int od = (index / (OW * OH)) % OD;
    int v = index / (OW * OH * OD);

    float best = -FLT_MAX;
    for (int kd = 0; kd < KERNEL; kd++) {
      for (int kh = 0; kh < KERNEL; kh++) {
        for (int kw = 0; kw < KERNEL; kw++) {
          int d = od * STRIDE - PADDING + kd;
          int h = oh * STRIDE - PADDING + kh;
          int w = ow * STRIDE - PADDING + kw;
          if (d >= 0 && d < D && h >= 0 && h < H && w >= 0 && w < W) {
            best = fmaxf(best, input[((v * D + d) * H + h) * W + w]);
          }
        }
      }
    }
    output[index] = best;
  }
}

int main() {
  const int volumes = 16 * 32, D = 128, H = 128, W = 128;
  const int OD = (D + 2 * PADDING - KERNEL) / STRIDE + 1;
  const int OH = (H + 2 * PADDING - KERNEL) / STRIDE + 1;
  const int OW = (W + 2 * PADDING - KERNEL) / STRIDE + 1;
  size_t in_bytes = (size_t)volumes * D * H * W * sizeof(float);
  size_t out_bytes = (size_t)volumes * OD * OH * OW * sizeof(float);
  float* in = (float*)malloc(in_bytes);
  float* out = (float*)malloc(out_bytes);
  for (size_t i = 0; i < in_bytes / sizeof(float); i++) in[i] = (float)rand() / RAND_MAX - 0.5f;

  float *d_in, *d_out;
  cudaMalloc((void**)&d_in, in_bytes);
  cudaMalloc((void**)&d_out, out_bytes);
  cudaMemcpy(d_in, in, in_bytes, cudaMemcpyHostToDevice);

  int threads = 256;
  int blocks = (volumes * OD * OH * OW + threads - 1) / threads;
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  max_pool3d<<<((((((volumes * OD) * OH) * OW) + (4 * 256) - 1) / (4 * 256)) > 1 ? (((((volumes * OD) * OH) * OW) + (4 * 256) - 1) / (4 * 256)) : 1), 256>>>(d_in, d_out, volumes, D, H, W, OD, OH, OW);
  cudaEventRecord(stop);
  cudaMemcpy(out, d_out, out_bytes, cudaMemcpyDeviceToHost);
  float ms = 0;
  cudaEventElapsedTime(&ms, start, stop);

  float expected = -FLT_MAX;  // of the first volume's voxel (1, 2, 3)
  for (int d = 1; d <= 3; d++)
    for (int h = 3; h <= 5; h++)
      for (int w = 5; w <= 7; w++) expected = fmaxf(expected, in[(d * H + h) * W + w]);
  bool right = out[(1 * OH + 2) * OW + 3] == expected;
  printf("%s, %.3f ms\n", right ? "right" : "WRONG", ms);
  cudaFree(d_in);
  cudaFree(d_out);
  free(in);
  free(out);
  return right ? 0 : 1;
}

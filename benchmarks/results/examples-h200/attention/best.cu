// Softmax attention, fp32: one thread per query row of each (batch, head) pair.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

constexpr int HEAD = 64;  // size of one head

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

__global__ void attention(const float* Q, const float* K, const float* V, float* O, int heads, int S, float scale) {
  __shared__ __align__(16) float K_tile[64][64];
  __shared__ __align__(16) float V_tile[64][64];
  const int thread2 = blockIdx.x * blockDim.x + threadIdx.x;
  const bool inside = thread2 < S;
  const int row = inside ? thread2 : S - 1;  // all stay for the barriers  // query
  int head = blockIdx.y;                            // batch and head

  const float* q = Q + ((size_t)head * S + row) * HEAD;
  const float* keys = K + (size_t)head * S * HEAD;
  const float* values = V + (size_t)head * S * HEAD;

  float top = -INFINITY;
  for (int first = 0; first < S; first += 64) {
    // 64 rows, which all threads of the block need, are read once and shared.
    const int last = first + 64 < S ? first + 64 : S;
    __syncthreads();  // the tile before this one has been used
    for (int load = threadIdx.x; load < (last - first) * 64; load += blockDim.x) {
      const int j = first + load / 64;
      const int d = load % 64;
      K_tile[load / 64][load % 64] = keys[j * HEAD + d];
    }
    __syncthreads();
    for (int j = first; j < last; ++j) {
      float score = 0.0f;
      for (int d = 0; d < HEAD; d++) score += q[d] * K_tile[j - first][d];
      top = fmaxf(top, score * scale);
    }
  }

  float sum = 0.0f;
  float out[HEAD];
  for (int d = 0; d < HEAD; d++) out[d] = 0.0f;
  for (int first = 0; first < S; first += 64) {
    // 64 rows, which all threads of the block need, are read once and shared.
    const int last = first + 64 < S ? first + 64 : S;
    __syncthreads();  // the tile before this one has been used
    for (int load = threadIdx.x; load < (last - first) * 64; load += blockDim.x) {
      const int j = first + load / 64;
      const int d = load % 64;
      K_tile[load / 64][load % 64] = keys[j * HEAD + d];
      V_tile[load / 64][load % 64] = values[j * HEAD + d];
    }
    __syncthreads();
    for (int j = first; j < last; ++j) {
      float score = 0.0f;
      for (int d = 0; d < HEAD; d++) score += q[d] * K_tile[j - first][d];
      float weight = expf(score * scale - top);
      sum += weight;
      for (int d = 0; d < HEAD; d++) out[d] += weight * V_tile[j - first][d];
    }
  }
  for (int d = 0; d < HEAD; d++) if (inside) O[((size_t)head * S + row) * HEAD + d] = out[d] / sum;
}

int main() {
  const int batch = 8, H = 16, S = 2048;
  const int heads = batch * H;
  const size_t count = (size_t)heads * S * HEAD;
  std::vector<float> q(count), k(count), v(count), o(count);
  for (size_t i = 0; i < count; i++) {
    q[i] = 2.0f * rand() / RAND_MAX - 1.0f;
    k[i] = 2.0f * rand() / RAND_MAX - 1.0f;
    v[i] = 2.0f * rand() / RAND_MAX - 1.0f;
  }
  float *dq, *dk, *dv, *dout;
  CHECK(cudaMalloc(&dq, count * sizeof(float)));
  CHECK(cudaMalloc(&dk, count * sizeof(float)));
  CHECK(cudaMalloc(&dv, count * sizeof(float)));
  CHECK(cudaMalloc(&dout, count * sizeof(float)));
  CHECK(cudaMemcpy(dq, q.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dk, k.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dv, v.data(), count * sizeof(float), cudaMemcpyHostToDevice));

  const float scale = 0.125f;  // 1 / sqrt(HEAD)
  dim3 grid((S + 127) / 128, heads);
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaEventRecord(start));
  attention<<<grid, 128>>>(dq, dk, dv, dout, heads, S, scale);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(stop));
  CHECK(cudaEventSynchronize(stop));
  float ms = 0.0f;
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(cudaMemcpy(o.data(), dout, count * sizeof(float), cudaMemcpyDeviceToHost));

  // one row against the CPU
  const size_t row = 5 * (size_t)S + 7;
  std::vector<double> weight(S);
  double sum = 0.0, expected = 0.0;
  for (int j = 0; j < S; j++) {
    double score = 0.0;
    for (int d = 0; d < HEAD; d++) score += (double)q[row * HEAD + d] * k[((size_t)5 * S + j) * HEAD + d];
    weight[j] = exp(score * scale);
    sum += weight[j];
  }
  for (int j = 0; j < S; j++) expected += weight[j] / sum * v[((size_t)5 * S + j) * HEAD + 3];
  const bool right = fabs(o[row * HEAD + 3] - expected) < 1e-4;
  printf("%s, %.3f ms\n", right ? "right" : "WRONG", ms);
  cudaFree(dq);
  cudaFree(dk);
  cudaFree(dv);
  cudaFree(dout);
  return right ? 0 : 1;
}

// Kernels whose counters are known exactly.
extern "C" __global__ void strided(const float* x, float* y, int stride) { y[threadIdx.x] = x[threadIdx.x * stride]; }
extern "C" __global__ void vectors(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void shifted(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }
extern "C" __global__ void diverging(const float* x, float* y) {
  if (threadIdx.x % 2) y[threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void shared_strided(float* y, int stride) {
  extern __shared__ float s[];
  s[threadIdx.x * stride] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * stride];
}
extern "C" __global__ void repeated(const float* x, float* y, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++) sum += x[i * 32 + threadIdx.x];
  y[threadIdx.x] = sum;
}
// Lane l makes l + 1 rounds: the warp makes 32.
extern "C" __global__ void triangular(const float* x, float* y) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i <= threadIdx.x; i++) sum = fmaf(x[i], 2.0f, sum);
  y[threadIdx.x] = sum;
}
extern "C" __global__ void same_line_twice(const float* x, float* y) {
  float first = *(volatile const float*)(x + threadIdx.x);
  y[threadIdx.x] = first + x[threadIdx.x ^ 1];
}
extern "C" __global__ void counting(int* x) { atomicAdd(x + threadIdx.x % 4, 1); }
// Each thread accesses element (threadIdx & keep) * stride of its type.
template <class T>
__device__ void shared_pattern(T* x, int stride, int keep, bool store) {
  extern __shared__ float4 words[];
  T* s = (T*)words;
  T v;
  if (store) s[(threadIdx.x & keep) * stride] = x[threadIdx.x];
  else v = s[(threadIdx.x & keep) * stride], x[threadIdx.x] = v;
}
extern "C" __global__ void pattern_4(float* x, int stride, int keep, bool store) {
  shared_pattern(x, stride, keep, store);
}
extern "C" __global__ void pattern_8(float2* x, int stride, int keep, bool store) {
  shared_pattern(x, stride, keep, store);
}
extern "C" __global__ void pattern_16(float4* x, int stride, int keep, bool store) {
  shared_pattern(x, stride, keep, store);
}

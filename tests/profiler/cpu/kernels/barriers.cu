// Correct kernels whose barriers a compiler has every reason to copy: unrolled loops, branches before and after them.

// Each thread's way to the barrier depends on its number, so that code before it invites jump threading.
extern "C" __global__ void branches_before(const float* x, float* y) {
  __shared__ float s[128];
  int t = threadIdx.x;
  float v = x[t];
  for (int round = 0; round < 4; round++) {
    bool odd = (t >> round) & 1;
    if (odd) v = v * 2.0f;
    else if (v > 3.0f) v = v - 1.0f;
    s[t] = v;
    __syncthreads();
    if (odd) v = s[t ^ 1] + 1.0f;
    else v = s[127 - t];
    __syncthreads();
  }
  y[t] = v;
}

// A reduction that is unrolled whole: seven pairs of barriers in a row, each beside a branch on the thread.
extern "C" __global__ void unrolled_tree(const float* x, float* y) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = x[t], s[t + 128] = x[t + 128];
  __syncthreads();
#pragma unroll
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) y[0] = s[0];
}

// Unrolled in part, with a trip count that nobody knows and two exits that all threads take together.
extern "C" __global__ void unrolled_with_exits(const float* x, float* y, int n, int stop) {
  __shared__ float s[128];
  int t = threadIdx.x;
  float v = x[t];
#pragma unroll 4
  for (int round = 0; round < n; round++) {
    s[t] = v;
    __syncthreads();
    if (round == stop) break;
    if (t < 32) v += s[t + 64];
    else v -= s[t - 32];
    __syncthreads();
    if (stop < -round) break;
  }
  y[t] = v;
}

// Three barriers in a switch on what all threads have in common, one of them reached from two cases.
extern "C" __global__ void switched(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = x[t];
  for (int i = 0; i < n; i++) {
    switch (i % 3) {
      case 0: __syncthreads(); if (t & 1) s[t] += 1.0f; break;
      case 1: if (t & 2) s[t] *= 2.0f;  // falls through
      default: __syncthreads(); if (t & 4) s[t] -= 3.0f;
    }
  }
  y[t] = s[t];
}

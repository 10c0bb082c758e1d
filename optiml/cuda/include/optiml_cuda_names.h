// Declarations of the CUDA names that kernels and their hosts use, for parsing only: nothing here is ever compiled.
#pragma once
extern "C" __attribute__((device)) void __syncthreads();  // a builtin of clang's, hence before the pragma
// Every function may be called from both sides: telling host from device code is nvcc's work, not this parse's.
#pragma clang force_cuda_host_device begin
#include <math.h>
#define __global__ __attribute__((global))
#define __device__ __attribute__((annotate("device")))
#define __host__ __attribute__((annotate("host")))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((annotate("managed")))
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1
#define __CUDA_ARCH_LIST__ 900
#define CUDART_INF_F __builtin_huge_valf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDA_VERSION 13000
#define CUDART_VERSION 13000

typedef decltype(sizeof(0)) optiml_size_t;
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint3 { unsigned x, y, z; };
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
extern const __device__ int warpSize;

#define OPTIML_VECTOR(T, N)                       \
  struct N##1 { T x; };                           \
  struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; }; \
  struct N##3 { T x, y, z; };                     \
  struct __attribute__((aligned(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4))) N##4 { T x, y, z, w; }; \
  __host__ __device__ N##1 make_##N##1(T);        \
  __host__ __device__ N##2 make_##N##2(T, T);     \
  __host__ __device__ N##3 make_##N##3(T, T, T);  \
  __host__ __device__ N##4 make_##N##4(T, T, T, T);
#define OPTIML_VECTORS_WITHOUT_3(T, N)            \
  struct N##1 { T x; };                           \
  struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; }; \
  struct __attribute__((aligned(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4))) N##4 { T x, y, z, w; }; \
  __host__ __device__ N##1 make_##N##1(T);        \
  __host__ __device__ N##2 make_##N##2(T, T);     \
  __host__ __device__ N##4 make_##N##4(T, T, T, T); \
  __host__ __device__ uint3 make_uint3(unsigned, unsigned, unsigned);
OPTIML_VECTOR(signed char, char)
OPTIML_VECTOR(unsigned char, uchar)
OPTIML_VECTOR(short, short)
OPTIML_VECTOR(unsigned short, ushort)
OPTIML_VECTOR(int, int)
OPTIML_VECTORS_WITHOUT_3(unsigned, uint)
OPTIML_VECTOR(long, long)
OPTIML_VECTOR(unsigned long, ulong)
OPTIML_VECTOR(long long, longlong)
OPTIML_VECTOR(unsigned long long, ulonglong)
OPTIML_VECTOR(float, float)
OPTIML_VECTOR(double, double)

__device__ int __syncthreads_count(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_or(int);
__device__ void __syncwarp(unsigned = 0xffffffffu);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ void __trap();
__device__ void __nanosleep(unsigned);
__device__ unsigned __activemask();
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ int __all_sync(unsigned, int);
__device__ long long clock64();
__device__ int clock();
template <class T> __device__ T __shfl_sync(unsigned, T, int, int = 32);
template <class T> __device__ T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T> __device__ T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T> __device__ T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T> __device__ unsigned __match_any_sync(unsigned, T);
template <class T> __device__ unsigned __match_all_sync(unsigned, T, int*);
template <class T> __device__ T __reduce_add_sync(unsigned, T);
template <class T> __device__ T __reduce_min_sync(unsigned, T);
template <class T> __device__ T __reduce_max_sync(unsigned, T);
template <class T> __device__ T __ldg(const T*);
template <class T> __device__ T __ldcs(const T*);
template <class T> __device__ T __ldca(const T*);
template <class T> __device__ T __ldcg(const T*);
template <class T> __device__ void __stcs(T*, T);
template <class T> __device__ void __stcg(T*, T);
template <class T> __device__ void __stwt(T*, T);
#define OPTIML_ATOMIC(F) template <class T, class U> __device__ T F(T*, U);
OPTIML_ATOMIC(atomicAdd) OPTIML_ATOMIC(atomicSub) OPTIML_ATOMIC(atomicExch) OPTIML_ATOMIC(atomicMin)
OPTIML_ATOMIC(atomicMax) OPTIML_ATOMIC(atomicInc) OPTIML_ATOMIC(atomicDec) OPTIML_ATOMIC(atomicAnd)
OPTIML_ATOMIC(atomicOr) OPTIML_ATOMIC(atomicXor)
template <class T, class U, class V> __device__ T atomicCAS(T*, U, V);

#define OPTIML_F1(F) extern "C" __host__ __device__ float F##f(float); extern "C" __host__ __device__ double F(double);
#define OPTIML_F2(F) \
  extern "C" __host__ __device__ float F##f(float, float); extern "C" __host__ __device__ double F(double, double);
OPTIML_F1(rsqrt) OPTIML_F1(rcbrt) OPTIML_F1(sinpi) OPTIML_F1(cospi) OPTIML_F1(normcdf)
OPTIML_F1(normcdfinv) OPTIML_F1(erfinv) OPTIML_F1(erfcinv) OPTIML_F1(erfcx) OPTIML_F1(cyl_bessel_i0)
#define OPTIML_D1(F) __device__ float F(float);
#define OPTIML_D2(F) __device__ float F(float, float);
OPTIML_D1(__expf) OPTIML_D1(__exp10f) OPTIML_D1(__logf) OPTIML_D1(__log2f) OPTIML_D1(__log10f) OPTIML_D1(__sinf)
OPTIML_D1(__cosf) OPTIML_D1(__tanf) OPTIML_D1(__tanhf) OPTIML_D1(__saturatef) OPTIML_D1(__frcp_rn) OPTIML_D1(__fsqrt_rn)
OPTIML_D1(__frsqrt_rn) OPTIML_D2(__fdividef) OPTIML_D2(__powf) OPTIML_D2(__fadd_rn) OPTIML_D2(__fmul_rn)
OPTIML_D2(__fsub_rn) OPTIML_D2(__fdiv_rn)
__device__ float __fmaf_rn(float, float, float);
__device__ int __float_as_int(float);
__device__ unsigned __float_as_uint(float);
__device__ float __int_as_float(int);
__device__ float __uint_as_float(unsigned);
__device__ long long __double_as_longlong(double);
__device__ double __longlong_as_double(long long);
__device__ int __float2int_rn(float);
__device__ int __float2int_rz(float);
__device__ int __float2int_rd(float);
__device__ float __int2float_rn(int);
__device__ int __popc(unsigned);
__device__ int __popcll(unsigned long long);
__device__ int __clz(int);
__device__ int __clzll(long long);
__device__ int __ffs(int);
__device__ int __ffsll(long long);
__device__ unsigned __brev(unsigned);
__device__ int __mul24(int, int);
__device__ unsigned __umul24(unsigned, unsigned);
__device__ int __mulhi(int, int);
__device__ unsigned __umulhi(unsigned, unsigned);
__device__ unsigned __byte_perm(unsigned, unsigned, unsigned);
__device__ int __dp4a(int, int, int);
template <class T> __host__ __device__ constexpr T min(T, T);
template <class T> __host__ __device__ constexpr T max(T, T);
template <class T, class U> __host__ __device__ constexpr auto min(T a, U b) -> decltype(a + b);
template <class T, class U> __host__ __device__ constexpr auto max(T a, U b) -> decltype(a + b);
extern "C" __host__ __device__ float fdividef(float, float);

// <cuda_fp16.h>, <cuda_bf16.h>
struct __half {
  unsigned short bits;
  __host__ __device__ __half() = default;
  __host__ __device__ __half(float);
  __host__ __device__ operator float() const;
};
struct __nv_bfloat16 {
  unsigned short bits;
  __host__ __device__ __nv_bfloat16() = default;
  __host__ __device__ __nv_bfloat16(float);
  __host__ __device__ operator float() const;
};
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
struct __attribute__((aligned(4))) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
__host__ __device__ float __half2float(__half);
__host__ __device__ __half __float2half(float);
__host__ __device__ __half __float2half_rn(float);
__host__ __device__ float __bfloat162float(__nv_bfloat16);
__host__ __device__ __nv_bfloat16 __float2bfloat16(float);
__host__ __device__ __half2 __floats2half2_rn(float, float);
__host__ __device__ float2 __half22float2(__half2);
__host__ __device__ __half2 __float2half2_rn(float);
__device__ __half2 __half2half2(__half);
__device__ unsigned long __cvta_generic_to_shared(const void*);
#define OPTIML_H(F, H) __device__ H F(H, H);
OPTIML_H(__hadd, __half) OPTIML_H(__hsub, __half) OPTIML_H(__hmul, __half) OPTIML_H(__hdiv, __half)
OPTIML_H(__hmax, __half) OPTIML_H(__hmin, __half) OPTIML_H(__hadd2, __half2) OPTIML_H(__hmul2, __half2)
OPTIML_H(__hmax2, __half2) OPTIML_H(__hmin2, __half2) OPTIML_H(__hsub2, __half2)
__device__ __half __hfma(__half, __half, __half);
__device__ __half2 __hfma2(__half2, __half2, __half2);
__device__ bool __hgt(__half, __half);
__device__ bool __hlt(__half, __half);

#include "optiml_cuda_runtime.h"

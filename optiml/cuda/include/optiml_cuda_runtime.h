// The runtime, as host code uses it: declarations for parsing only, part of optiml_cuda_names.h.
#pragma once
typedef int cudaError_t;
typedef int cudaError;
typedef struct optiml_stream* cudaStream_t;
typedef struct optiml_event* cudaEvent_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
                      cudaMemcpyDefault };
enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotReady, cudaErrorUnknown };
enum { cudaStreamDefault, cudaStreamNonBlocking, cudaEventDefault, cudaEventDisableTiming, cudaHostAllocDefault,
       cudaHostAllocMapped, cudaHostAllocPortable, cudaMemAttachGlobal, cudaMemAttachHost, cudaCpuDeviceId = -1 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrMaxThreadsPerBlock, cudaDevAttrWarpSize,
                      cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrMaxSharedMemoryPerBlockOptin };
enum cudaMemoryAdvise { cudaMemAdviseSetReadMostly, cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1 };
struct cudaDeviceProp {
  char name[256];
  optiml_size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor;
  int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, clockRate, memoryClockRate, memoryBusWidth,
      l2CacheSize, regsPerBlock, maxThreadsPerMultiProcessor;
};
template <class T> cudaError_t cudaMalloc(T**, optiml_size_t);
template <class T> cudaError_t cudaMallocManaged(T**, optiml_size_t, unsigned = 1);
template <class T> cudaError_t cudaMallocAsync(T**, optiml_size_t, cudaStream_t);
template <class T> cudaError_t cudaMallocFromPoolAsync(T**, optiml_size_t, struct optiml_pool*, cudaStream_t);
template <class T> cudaError_t cudaMallocPitch(T**, optiml_size_t*, optiml_size_t, optiml_size_t);
template <class T> cudaError_t cudaMallocHost(T**, optiml_size_t);
template <class T> cudaError_t cudaHostAlloc(T**, optiml_size_t, unsigned);
cudaError_t cudaFree(void*);
cudaError_t cudaFreeAsync(void*, cudaStream_t);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaHostRegister(void*, optiml_size_t, unsigned);
cudaError_t cudaHostUnregister(void*);
template <class T> cudaError_t cudaHostGetDevicePointer(T**, void*, unsigned);
template <class... T> cudaError_t cudaMemPrefetchAsync(T...);
template <class... T> cudaError_t cudaMemAdvise(T...);
cudaError_t cudaMemGetInfo(optiml_size_t*, optiml_size_t*);
cudaError_t cudaMemcpy2D(void*, optiml_size_t, const void*, optiml_size_t, optiml_size_t, optiml_size_t, cudaMemcpyKind);
cudaError_t cudaMemset2D(void*, optiml_size_t, int, optiml_size_t, optiml_size_t);
template <class T> cudaError_t cudaGetSymbolAddress(void**, const T&);
template <class T> cudaError_t cudaMemcpyToSymbolAsync(const T&, const void*, optiml_size_t, optiml_size_t = 0,
                                                       cudaMemcpyKind = cudaMemcpyHostToDevice, cudaStream_t = 0);
template <class T> cudaError_t cudaMemcpyFromSymbolAsync(void*, const T&, optiml_size_t, optiml_size_t = 0,
                                                         cudaMemcpyKind = cudaMemcpyDeviceToHost, cudaStream_t = 0);
cudaError_t cudaMemcpy(void*, const void*, optiml_size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void*, const void*, optiml_size_t, cudaMemcpyKind, cudaStream_t = 0);
cudaError_t cudaMemset(void*, int, optiml_size_t);
cudaError_t cudaMemsetAsync(void*, int, optiml_size_t, cudaStream_t = 0);
template <class T> cudaError_t cudaMemcpyToSymbol(const T&, const void*, optiml_size_t, optiml_size_t = 0,
                                                  cudaMemcpyKind = cudaMemcpyHostToDevice);
template <class T> cudaError_t cudaMemcpyFromSymbol(void*, const T&, optiml_size_t, optiml_size_t = 0,
                                                    cudaMemcpyKind = cudaMemcpyDeviceToHost);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned, int);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
template <class F> cudaError_t cudaOccupancyMaxPotentialBlockSize(int*, int*, F, optiml_size_t = 0, int = 0);
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, F, int, optiml_size_t);
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int);
template <class F> cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache);
template <class F> cudaError_t cudaLaunchKernel(F, dim3, dim3, void**, optiml_size_t, cudaStream_t);
template <class F> cudaError_t cudaLaunchCooperativeKernel(F, dim3, dim3, void**, optiml_size_t, cudaStream_t);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, optiml_size_t = 0, void* = 0);

// Textures are known by name, to say that a launch plan has none.
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
template <class T> __device__ T tex1D(cudaTextureObject_t, float);
template <class T> __device__ T tex1Dfetch(cudaTextureObject_t, int);
template <class T> __device__ T tex2D(cudaTextureObject_t, float, float);
template <class T> __device__ T tex3D(cudaTextureObject_t, float, float, float);

// Declarations for parsing only.
#pragma once
namespace cooperative_groups {
struct thread_group {
  __device__ void sync() const;
  __device__ unsigned size() const, thread_rank() const, num_threads() const;
};
struct thread_block : thread_group {
  static __device__ dim3 group_index(), thread_index(), group_dim();
};
struct grid_group : thread_group {
  __device__ bool is_valid() const;
};
struct coalesced_group : thread_group {};
template <unsigned N, class Parent = void>
struct thread_block_tile : thread_group {
  template <class T> __device__ T shfl(T, int) const;
  template <class T> __device__ T shfl_down(T, unsigned) const;
  template <class T> __device__ T shfl_up(T, unsigned) const;
  template <class T> __device__ T shfl_xor(T, unsigned) const;
  __device__ int any(int) const, all(int) const;
  __device__ unsigned ballot(int) const, meta_group_rank() const, meta_group_size() const;
};
__device__ thread_block this_thread_block();
__device__ grid_group this_grid();
__device__ coalesced_group coalesced_threads();
template <unsigned N, class G> __device__ thread_block_tile<N, G> tiled_partition(const G&);
template <class G> __device__ void sync(const G&);
template <class T> struct plus { __device__ T operator()(T, T) const; };
template <class T> struct less { __device__ T operator()(T, T) const; };
template <class T> struct greater { __device__ T operator()(T, T) const; };
template <class G, class T, class F> __device__ T reduce(const G&, T, F);
}  // namespace cooperative_groups

// Declarations for parsing only.
#pragma once
namespace thrust {
template <class T> struct device_ptr {
  T* get() const;
};
template <class T> T* raw_pointer_cast(device_ptr<T>);
template <class T> T* raw_pointer_cast(T*);
template <class T> struct host_vector;
template <class T> struct device_vector {
  device_vector();
  device_vector(optiml_size_t);
  device_vector(optiml_size_t, T);
  device_vector(const host_vector<T>&);
  template <class V> device_vector(const V&);
  template <class I> device_vector(I, I);
  device_ptr<T> data() const;
  device_ptr<T> begin() const, end() const;
  optiml_size_t size() const;
  void resize(optiml_size_t), resize(optiml_size_t, T);
  T& operator[](optiml_size_t) const;
};
template <class T> struct host_vector {
  host_vector();
  host_vector(optiml_size_t);
  host_vector(optiml_size_t, T);
  template <class V> host_vector(const V&);
  template <class I> host_vector(I, I);
  template <class V> host_vector& operator=(const V&);
  T* data() const;
  T *begin() const, *end() const;
  optiml_size_t size() const;
  void resize(optiml_size_t), resize(optiml_size_t, T);
  T& operator[](optiml_size_t) const;
};
template <class I, class T> void fill(I, I, T);
template <class I, class T> void sequence(I, I, T);
template <class I> void sequence(I, I);
template <class I, class O> void copy(I, I, O);
template <class I, class T> T reduce(I, I, T);
}  // namespace thrust

#pragma once

#include <cstddef>
#include <vector>

namespace lathe {

/// Pre-faults large allocations in parallel with transparent huge pages; best effort.
void prefault(void* begin, std::size_t bytes);

/// Replaces the contents of `vector` by `count` zeros. Large vectors are pre-faulted: page faults
/// of 4 KiB on one thread cost more than the reference computations that use the memory.
template <class T>
void fill_zeros(std::vector<T>& vector, std::size_t count) {
  if (vector.capacity() < count) {
    vector = std::vector<T>();
    vector.reserve(count);
    prefault(vector.data(), count * sizeof(T));
  }
  vector.assign(count, T(0));
}

template <class T>
std::vector<T> zero_vector(std::size_t count) {
  std::vector<T> vector;
  fill_zeros(vector, count);
  return vector;
}

}  // namespace lathe

#pragma once

#include <cstddef>
#include <vector>

namespace lathe {

/// Where this memory is large, asks for it now, in huge pages, on several threads. Without effect where the
/// kernel does not give it so.
void obtain_large(void* begin, std::size_t bytes);

/// `count` zeros in place of what `vector` held. Large ones lie in huge pages: clearing and mapping memory
/// that is new, 4 KiB at a time on one thread, takes longer than what references do with it.
template <class T>
void fill_zeros(std::vector<T>& vector, std::size_t count) {
  if (vector.capacity() < count) {
    vector = std::vector<T>();
    vector.reserve(count);
    obtain_large(vector.data(), count * sizeof(T));
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

#pragma once

#include <cstddef>
#include <vector>

namespace lathe {

/// Asks for huge pages in the whole pages of this memory, where it is large. Without effect where they are
/// not given.
void prefer_huge_pages(void* begin, std::size_t bytes);

/// `count` zeros in place of what `vector` held. Large ones lie in huge pages: clearing and mapping memory
/// that is new, 4 KiB at a time, takes longer than what references do with it.
template <class T>
void fill_zeros(std::vector<T>& vector, std::size_t count) {
  if (vector.capacity() < count) {
    vector = std::vector<T>();
    vector.reserve(count);
    prefer_huge_pages(vector.data(), count * sizeof(T));
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

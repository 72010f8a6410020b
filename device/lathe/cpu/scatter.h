#pragma once

#include <stdint.h>

// Sums of what goes to the same place.

namespace lathe {

/// The items by their places, in order: those of place p are items[first[p]] up to
/// items[first[p + 1]]. Who is outside [0, places) is nowhere.
template <class Index>
inline void group_by_place(const Index* at, int64_t n, int64_t places, int64_t* first, int64_t* items) {
  const auto is_inside = [&](int64_t i) { return at[i] >= 0 && at[i] < places; };
  for (int64_t p = 0; p <= places; ++p) first[p] = 0;
  for (int64_t i = 0; i < n; ++i)
    if (is_inside(i)) ++first[static_cast<int64_t>(at[i]) + 1];
  for (int64_t p = 0; p < places; ++p) first[p + 1] += first[p];
  for (int64_t i = 0; i < n; ++i)
    if (is_inside(i)) items[first[static_cast<int64_t>(at[i])]++] = i;
  for (int64_t p = places; p > 0; --p) first[p] = first[p - 1];
  first[0] = 0;
}

/// Counts numbers of [0, places) in four tables that take turns, so that equal ones in a row need
/// not wait for each other.
template <class Index>
inline void count_places(const Index* at, int64_t n, int64_t places, int32_t* tables) {
  const auto count = [&](int64_t i, int64_t table) {
    const auto place = static_cast<uint64_t>(static_cast<int64_t>(at[i]));
    if (place < static_cast<uint64_t>(places)) ++tables[table * places + static_cast<int64_t>(place)];
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t table = 0; table < 4; ++table) count(i + table, table);
  for (; i < n; ++i) count(i, 0);
}

/// Adds `columns` columns of the rows `items`[begin, end) of x, which lie `apart`.
template <int64_t kStrip, class Sum, class T>
inline void add_rows(Sum (&sums)[kStrip], const T* x, int64_t apart, int64_t columns, const int64_t* items,
                     int64_t begin, int64_t end) {
  if (columns == kStrip) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = 0; k < kStrip; ++k) sums[k] += static_cast<Sum>(x[items[i] * apart + k]);
    return;
  }
  for (int64_t i = begin; i < end; ++i)
    for (int64_t k = 0; k < columns; ++k) sums[k] += static_cast<Sum>(x[items[i] * apart + k]);
}

}  // namespace lathe

#pragma once

#include "lathe/cpu/exact.h"
#include "lathe/cpu/transpose.h"

// Lines in order. Values become unsigned keys of the same order, so that one code sorts all types;
// places are sorted with their keys above them, so that equal values keep their order.

namespace lathe {

/// NaN is above all numbers; zeros of both signs are equal.
inline uint32_t order_key(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x == x ? x + 0.0f : __builtin_nanf(""));
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
inline uint64_t order_key(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x == x ? x + 0.0 : __builtin_nan(""));
  return bits ^ (static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63) | 0x8000000000000000u);
}
inline uint32_t order_key(half x) { return order_key(static_cast<float>(x)); }
inline uint32_t order_key(bfloat16 x) { return order_key(static_cast<float>(x)); }
template <int kMantissa, bool kHasInfinity>
inline uint32_t order_key(Fp8<kMantissa, kHasInfinity> x) {
  return order_key(static_cast<float>(x));
}
inline uint32_t order_key(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint32_t order_key(int8_t x) { return order_key(int32_t{x}); }
inline uint32_t order_key(uint8_t x) { return order_key(int32_t{x}); }
inline uint64_t order_key(int64_t x) { return static_cast<uint64_t>(x) ^ 0x8000000000000000u; }

template <class T>
using OrderKey = decltype(order_key(T()));

template <class T>
inline T value_of_key(OrderKey<T> key) {
  if constexpr (__is_same(T, double)) {
    const uint64_t sign = uint64_t{1} << 63;
    return __builtin_bit_cast(double, key& sign ? key ^ sign : ~key);
  } else if constexpr (__is_same(T, int64_t)) {
    return static_cast<int64_t>(key ^ (uint64_t{1} << 63));
  } else if constexpr (__is_same(T, int32_t) || __is_same(T, int8_t) || __is_same(T, uint8_t)) {
    return static_cast<T>(static_cast<int32_t>(key ^ 0x80000000u));
  } else {
    return T(__builtin_bit_cast(float, key & 0x80000000u ? key ^ 0x80000000u : ~key));
  }
}

/// A network: the same steps for kLanes lines side by side, `block` holding element i of line l at
/// [i * kLanes + l].
template <class Key>
inline void sort_side_by_side(Key* block, int64_t n) {
  typedef Key vector __attribute__((vector_size(4 * kLanes), aligned(4 * kLanes)));
  constexpr int kVectors = sizeof(Key) / 4;
  const auto order = [&](int64_t i, int64_t k) {
    vector* a = reinterpret_cast<vector*>(block + i * kLanes);
    vector* b = reinterpret_cast<vector*>(block + k * kLanes);
    for (int v = 0; v < kVectors; ++v) {
      const vector x = a[v], y = b[v];
      a[v] = x < y ? x : y;
      b[v] = x < y ? y : x;
    }
  };
  for (int64_t run = 1; run < n; run *= 2)  // Batcher's merge exchange
    for (int64_t apart = run; apart >= 1; apart /= 2)
      for (int64_t j = apart % run; j + apart < n; j += 2 * apart)
        for (int64_t i = j; i < min(j + apart, n - apart); ++i)
          if (i / (2 * run) == (i + apart) / (2 * run)) order(i, i + apart);
}

/// A place and a key that fills a word.
struct KeyedPlace {
  uint64_t key;
  int64_t place;
};
inline uint64_t key_bits(uint32_t key) { return key; }
inline uint64_t key_bits(uint64_t key) { return key; }
inline uint64_t key_bits(const KeyedPlace& item) { return item.key; }

/// By kDigit bits of the keys at a time, from the lowest of [first, first + bits) on. The result is
/// where the returned pointer says: `a` or `b`.
template <int kDigit, class Item>
inline Item* radix_sort(Item* a, Item* b, int64_t n, int first, int bits) {
  constexpr int kMostDigits = (64 + kDigit - 1) / kDigit;
  constexpr uint32_t kValues = 1u << kDigit;
  const int digits = (bits + kDigit - 1) / kDigit;
  const auto digit = [&](const Item& item, int d) {
    return key_bits(item) >> (first + d * kDigit) & (kValues - 1);
  };
  uint32_t places[kMostDigits][kValues];
  for (int d = 0; d < digits; ++d)
    for (uint32_t& place : places[d]) place = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++places[d][digit(a[i], d)];
  for (int d = 0; d < digits; ++d) {
    if (places[d][digit(a[0], d)] == n) continue;
    uint32_t before = 0;
    for (uint32_t& place : places[d]) {
      const uint32_t count = place;
      place = before;
      before += count;
    }
    for (int64_t i = 0; i < n; ++i) b[places[d][digit(a[i], d)]++] = a[i];
    Item* const sorted = b;
    b = a;
    a = sorted;
  }
  return a;
}
/// Of few items, clearing the counts of wide digits would take longer than sorting.
template <class Item>
inline Item* sort_by_digits(Item* a, Item* b, int64_t n, int first, int bits) {
  return n < 2048 ? radix_sort<8>(a, b, n, first, bits) : radix_sort<11>(a, b, n, first, bits);
}

/// `words`: 2 n of the key's size.
template <bool kDescending, class T>
inline void sort_values(const T* x, T* y, int64_t n, int64_t step, void* words) {
  using Key = OrderKey<T>;
  constexpr Key kFlip = kDescending ? ~Key{0} : Key{0};
  Key* const keys = static_cast<Key*>(words);
  for (int64_t i = 0; i < n; ++i) keys[i] = order_key(x[i * step]) ^ kFlip;
  const Key* const sorted = sort_by_digits(keys, keys + n, n, 0, 8 * sizeof(Key));
  for (int64_t i = 0; i < n; ++i) y[i * step] = value_of_key<T>(sorted[i] ^ kFlip);
}

/// `words`: 4 n of 8 bytes.
template <bool kDescending, class T>
inline void sort_places(const T* x, int64_t* y, int64_t n, int64_t step, void* words) {
  constexpr OrderKey<T> kFlip = kDescending ? ~OrderKey<T>{0} : OrderKey<T>{0};
  if constexpr (sizeof(OrderKey<T>) == 4) {
    uint64_t* const keys = static_cast<uint64_t*>(words);
    for (int64_t i = 0; i < n; ++i)
      keys[i] = static_cast<uint64_t>(order_key(x[i * step]) ^ kFlip) << 32 | static_cast<uint64_t>(i);
    const uint64_t* const sorted = sort_by_digits(keys, keys + n, n, 32, 32);
    for (int64_t i = 0; i < n; ++i) y[i * step] = static_cast<int64_t>(sorted[i] & 0xffffffffu);
  } else {
    KeyedPlace* const items = static_cast<KeyedPlace*>(words);
    for (int64_t i = 0; i < n; ++i) items[i] = {order_key(x[i * step]) ^ kFlip, i};
    const KeyedPlace* const sorted = sort_by_digits(items, items + n, n, 0, 64);
    for (int64_t i = 0; i < n; ++i) y[i * step] = sorted[i].place;
  }
}

/// kLanes numbers of 32 bits, turned: lane j of vector i becomes lane i of vector j.
inline void turn(uint32_t (&words)[kLanes][kLanes]) {
  f32v v[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) v[i] = load(reinterpret_cast<const float*>(words[i]));
  transpose(v);
  for (int64_t i = 0; i < kLanes; ++i) store(reinterpret_cast<float*>(words[i]), v[i]);
}

/// The lines that a network sorts together: rows one below the other, or neighbouring columns.
struct LineBlock {
  int64_t lines;  ///< at most kLanes
  int64_t n;
  int64_t apart;  ///< from one line to the next
  int64_t step;   ///< from one element of a line to the next
};

/// Calls visit(first, words) for each kLanes elements of the lines, words[i][l] being of element
/// first + i and line l: after reading them with get(line's element), or before writing them.
template <class Get>
inline void read_tile(const LineBlock& of, int64_t first, uint32_t (&words)[kLanes][kLanes], Get get) {
  const int64_t count = min(kLanes, of.n - first);
  if (of.step != 1) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t l = 0; l < of.lines; ++l) words[i][l] = get(l * of.apart + (first + i) * of.step);
    return;
  }
  for (int64_t l = 0; l < of.lines; ++l)
    for (int64_t i = 0; i < count; ++i) words[l][i] = get(l * of.apart + first + i);
  turn(words);
}
template <class Put>
inline void write_tile(const LineBlock& of, int64_t first, uint32_t (&words)[kLanes][kLanes], Put put) {
  const int64_t count = min(kLanes, of.n - first);
  if (of.step != 1) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t l = 0; l < of.lines; ++l) put(l * of.apart + (first + i) * of.step, words[i][l]);
    return;
  }
  turn(words);
  for (int64_t l = 0; l < of.lines; ++l)
    for (int64_t i = 0; i < count; ++i) put(l * of.apart + first + i, words[l][i]);
}

/// Sorts by words hold(key, place) of the lines' keys, key(at); put(at, word) for each in order.
template <class Word, class Key, class Hold, class Put>
inline void sort_lines_by(const LineBlock& of, Word* block, Key key, Hold hold, Put put) {
  alignas(64) uint32_t words[kLanes][kLanes] = {};
  for (int64_t first = 0; first < of.n; first += kLanes) {
    read_tile(of, first, words, key);
    for (int64_t i = 0; i < min(kLanes, of.n - first); ++i)
      for (int64_t l = 0; l < kLanes; ++l) block[(first + i) * kLanes + l] = hold(words[i][l], first + i);
  }
  sort_side_by_side(block, of.n);
  for (int64_t first = 0; first < of.n; first += kLanes) {
    for (int64_t i = 0; i < min(kLanes, of.n - first); ++i)
      for (int64_t l = 0; l < kLanes; ++l)
        words[i][l] = static_cast<uint32_t>(block[(first + i) * kLanes + l]);
    write_tile(of, first, words, put);
  }
}

/// `block`: n * kLanes keys. Of types with keys of 32 bits.
template <bool kDescending, class T>
inline void sort_lines(const T* x, T* y, const LineBlock& of, uint32_t* block) {
  constexpr uint32_t kFlip = kDescending ? ~0u : 0u;
  sort_lines_by(
      of, block, [&](int64_t at) { return order_key(x[at]) ^ kFlip; },
      [](uint32_t key, int64_t) { return key; },
      [&](int64_t at, uint32_t key) { y[at] = value_of_key<T>(key ^ kFlip); });
}
template <bool kDescending, class T>
inline void sort_lines(const T* x, int64_t* y, const LineBlock& of, uint64_t* block) {
  constexpr uint32_t kFlip = kDescending ? ~0u : 0u;
  sort_lines_by(
      of, block, [&](int64_t at) { return order_key(x[at]) ^ kFlip; },
      [](uint32_t key, int64_t place) {
        return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(place);
      },
      [&](int64_t at, uint32_t place) { y[at] = place; });
}

}  // namespace lathe

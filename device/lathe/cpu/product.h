#pragma once

#include "lathe/cpu/move.h"

// Matrix products in other types than fp32: a tile of sums stays in registers while words of packed
// columns of A and of packed rows of B pass by. A word is one number, or a pair of bytes as 16 bits
// each, whose products one instruction multiplies and adds.

namespace lathe {

template <class T>
struct SingleWords {
  using Number = T;
  using Word = T;
  using Sum = T;
  static constexpr int64_t kNumbers = 1;
  typedef Sum vector __attribute__((vector_size(4 * kLanes), aligned(sizeof(Sum))));

  static Word word(T number, T) { return number; }
  static vector add(vector sum, Word a, vector b) { return sum + a * b; }
};

template <class Byte>
struct BytePairs {
  using Number = Byte;
  using Word = int32_t;
  using Sum = int32_t;
  static constexpr int64_t kNumbers = 2;
  typedef Sum vector __attribute__((vector_size(4 * kLanes), aligned(sizeof(Sum))));

  static Word word(Byte low, Byte high) {
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int32_t>(high)) << 16 |
                                static_cast<uint16_t>(int16_t{low}));
  }
  static vector add(vector sum, Word a, vector b) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    return (vector)_mm512_dpwssd_epi32((__m512i)sum, _mm512_set1_epi32(a), (__m512i)b);
#elif defined(__AVX512BW__)
    return sum + (vector)_mm512_madd_epi16(_mm512_set1_epi32(a), (__m512i)b);
#else
    return sum + (vector)_mm256_madd_epi16(_mm256_set1_epi32(a), (__m256i)b);
#endif
  }
};

template <class T>
struct WordsOf {
  using type = SingleWords<T>;
};
template <>
struct WordsOf<int8_t> {
  using type = BytePairs<int8_t>;
};
template <>
struct WordsOf<uint8_t> {
  using type = BytePairs<uint8_t>;
};

/// Where a matrix's element lies: row * row_step + column * column_step.
template <class T>
struct StridedMatrix {
  const T* data;
  int64_t row_step, column_step;

  T at(int64_t row, int64_t column) const { return data[row * row_step + column * column_step]; }
};

template <class T>
struct ExactProduct {
  using Words = typename WordsOf<T>::type;
  using Word = typename Words::Word;
  using Sum = typename Words::Sum;
  using vector = typename Words::vector;
  static constexpr int64_t kRows = 6, kVectors = 2;
  static constexpr int64_t kColumns = kVectors * 4 * kLanes / int64_t{sizeof(Sum)};
  static constexpr int64_t kSteps = 256;  ///< words of a row of A that are packed together

  static int64_t steps(int64_t depth) { return cdiv(depth, Words::kNumbers); }

  /// Columns [first, first + kColumns) of B: [step][kColumns], zero beyond the matrix.
  static void pack_columns(const StridedMatrix<T>& b, int64_t depth, int64_t columns, int64_t first,
                           Word* to) {
    const int64_t count = min(kColumns, columns - first);
    for (int64_t step = 0; step < steps(depth); ++step, to += kColumns) {
      const int64_t k = step * Words::kNumbers;
      const bool two = k + 1 < depth;
      for (int64_t j = 0; j < count; ++j)
        to[j] = Words::word(b.at(k, first + j), Words::kNumbers > 1 && two ? b.at(k + 1, first + j) : T(0));
      for (int64_t j = count; j < kColumns; ++j) to[j] = 0;
    }
  }

  /// Rows [first, first + kRows) of A, steps [from, to).
  static void pack_rows(const StridedMatrix<T>& a, int64_t depth, int64_t rows, int64_t first, int64_t from,
                        int64_t end, Word* to) {
    for (int64_t step = from; step < end; ++step, to += kRows) {
      const int64_t k = step * Words::kNumbers;
      const bool two = k + 1 < depth;
      for (int64_t i = 0; i < kRows; ++i)
        to[i] = first + i < rows ? Words::word(a.at(first + i, k),
                                               Words::kNumbers > 1 && two ? a.at(first + i, k + 1) : T(0))
                                 : Word(0);
    }
  }

  /// Adds `count` steps to c, or begins with them.
  static void tile(const Word* a, const Word* b, int64_t count, Sum* c, int64_t width, int64_t rows,
                   int64_t columns, bool begins) {
    vector sums[kRows][kVectors] = {};
    for (int64_t step = 0; step < count; ++step, a += kRows, b += kColumns) {
      vector right[kVectors];
      for (int64_t v = 0; v < kVectors; ++v)
        __builtin_memcpy(&right[v], b + v * kColumns / kVectors, sizeof(vector));
#pragma GCC unroll 8
      for (int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int64_t v = 0; v < kVectors; ++v) sums[i][v] = Words::add(sums[i][v], a[i], right[v]);
    }
    Sum stored[kRows][kColumns];
    __builtin_memcpy(stored, sums, sizeof(sums));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        c[i * width + j] = begins ? stored[i][j] : c[i * width + j] + stored[i][j];
  }

  /// `kCount` rows of C from `first` on, for packed columns of B.
  template <int64_t kCount>
  static void rows(const StridedMatrix<T>& a, const Word* packed, int64_t depth, int64_t all_rows,
                   int64_t columns, int64_t first, Sum* c) {
    alignas(64) Word own[kSteps * kCount];
    const int64_t all = steps(depth), last = min(first + kCount, all_rows);
    for (int64_t from = 0; from < all; from += kSteps) {
      const int64_t count = min(kSteps, all - from);
      for (int64_t i = first; i < last; i += kRows)
        pack_rows(a, depth, all_rows, i, from, from + count, own + (i - first) * kSteps);
      for (int64_t j = 0; j < columns; j += kColumns)
        for (int64_t i = first; i < last; i += kRows)
          tile(own + (i - first) * kSteps, packed + (j / kColumns * all + from) * kColumns, count,
               c + i * columns + j, columns, min(kRows, last - i), min(kColumns, columns - j), from == 0);
    }
  }
};

}  // namespace lathe

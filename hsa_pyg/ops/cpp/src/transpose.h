// Transposing blocks in registers.
#pragma once

#include "lanes.h"

namespace hsa {

#if defined(__clang__)
#define HSA_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define HSA_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Mask<C>{__VA_ARGS__})
#endif

// a0 b0 a1 b1 ... of the lower halves of two vectors, and of the upper ones.
template <class C>
inline void zip(Vec<C> a, Vec<C> b, Vec<C>& low, Vec<C>& high) {
  if constexpr (kLanes<C> == 16) {
    low = HSA_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high =
        HSA_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else if constexpr (kLanes<C> == 8) {
    low = HSA_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    high = HSA_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else if constexpr (kLanes<C> == 4) {
    low = HSA_SHUFFLE(a, b, 0, 4, 1, 5);
    high = HSA_SHUFFLE(a, b, 2, 6, 3, 7);
  } else {
    low = HSA_SHUFFLE(a, b, 0, 2);
    high = HSA_SHUFFLE(a, b, 1, 3);
  }
}

#undef HSA_SHUFFLE

// Zipping halves log2(n) times transposes n vectors of n lanes.
template <class C, int STEP>
inline void zip_all(Vec<C>* x) {
  constexpr int L = kLanes<C>;
  Vec<C> y[L];
#pragma GCC unroll 8
  for (int i = 0; i < L / 2; ++i) zip<C>(x[i], x[i + L / 2], y[2 * i], y[2 * i + 1]);
  if constexpr (STEP * 2 < L) zip_all<C, STEP * 2>(y);
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) x[i] = y[i];
}

// out [columns, rows] of x [rows, columns]. Rows of x and out are read and written in
// whole vectors: behind their ends there must be room.
template <class C>
void transpose(const C* x, int64_t x_row, int64_t rows, int64_t columns, C* out,
               int64_t out_row) {
  constexpr int L = kLanes<C>;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t i = 0; i < columns; i += L) {
      Vec<C> block[L];
#pragma GCC unroll 16
      for (int n = 0; n < L; ++n) block[n] = load(x + (r + n) * x_row + i);
      zip_all<C, 1>(block);
      if (i + L <= columns) {
#pragma GCC unroll 16
        for (int n = 0; n < L; ++n) store(out + (i + n) * out_row + r, block[n]);
      } else {
        for (int n = 0; n < columns - i; ++n)
          store(out + (i + n) * out_row + r, block[n]);
      }
    }
}

}  // namespace hsa

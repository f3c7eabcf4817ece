// The one matrix product that everything here is made of.
#pragma once

#include "lanes.h"

namespace hsa {

// R rows by V vectors of C (+)= A B, held in registers over the whole sum. The order of
// every sum is that of k, whatever R and V: the result depends on no blocking.
template <class C, int R, int V, bool ADD>
inline void product_tile(int64_t inner, const C* a, int64_t a_row, int64_t a_inner,
                         const C* b, int64_t b_row, C* c, int64_t c_row) {
  constexpr int L = kLanes<C>;
  Vec<C> sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int x = 0; x < V; ++x)
      sum[r][x] = ADD ? load(c + r * c_row + x * L) : Vec<C>{};
  for (int64_t k = 0; k < inner; ++k, a += a_inner, b += b_row) {
    Vec<C> right[V];
#pragma GCC unroll 4
    for (int x = 0; x < V; ++x) right[x] = load(b + x * L);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec<C> left = splat(a[r * a_row]);
#pragma GCC unroll 4
      for (int x = 0; x < V; ++x) sum[r][x] += left * right[x];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int x = 0; x < V; ++x) store(c + r * c_row + x * L, sum[r][x]);
}

template <class C, int R, int V, bool ADD>
inline int64_t product_rows(int64_t at, int64_t rows, int64_t inner, const C* a,
                            int64_t a_row, int64_t a_inner, const C* b, int64_t b_row,
                            C* c, int64_t c_row) {
  for (; at + R <= rows; at += R)
    product_tile<C, R, V, ADD>(inner, a + at * a_row, a_row, a_inner, b, b_row,
                               c + at * c_row, c_row);
  if constexpr (R > 1)
    at = product_rows<C, R / 2, V, ADD>(at, rows, inner, a, a_row, a_inner, b, b_row, c,
                                        c_row);
  return at;
}

template <class C, bool ADD>
void product_columns(int64_t rows, int64_t columns, int64_t inner, const C* a,
                     int64_t a_row, int64_t a_inner, const C* b, int64_t b_row, C* c,
                     int64_t c_row) {
  constexpr int L = kLanes<C>;
  // As many sums as there are registers for; two vectors share what is read of A.
  constexpr int wide = kAccumulators >= 16 ? 8 : 4;
  int64_t left = vectors<C>(columns);
  for (; left >= 2; left -= 2, b += 2 * L, c += 2 * L)
    product_rows<C, wide, 2, ADD>(0, rows, inner, a, a_row, a_inner, b, b_row, c,
                                  c_row);
  if (left == 1)
    product_rows<C, 8, 1, ADD>(0, rows, inner, a, a_row, a_inner, b, b_row, c, c_row);
}

// C [rows, columns] (+)= A [rows, inner] B [inner, columns]. A may have any strides;
// the rows of B and C are contiguous and read and written in whole vectors.
template <class C>
void product(int64_t rows, int64_t columns, int64_t inner, const C* a, int64_t a_row,
             int64_t a_inner, const C* b, int64_t b_row, C* c, int64_t c_row,
             bool add = false) {
  if (add)
    product_columns<C, true>(rows, columns, inner, a, a_row, a_inner, b, b_row, c,
                             c_row);
  else
    product_columns<C, false>(rows, columns, inner, a, a_row, a_inner, b, b_row, c,
                              c_row);
}

}  // namespace hsa

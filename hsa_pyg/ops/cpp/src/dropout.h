// Dropout by a counter: whether a weight is kept depends on where it stands alone.
#pragma once

#include "tile.h"

namespace hsa {

inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

inline uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

inline uint64_t dropout_key(const Call& c, int64_t kind, int64_t row, int64_t head) {
  return mix(mix(uint64_t(c.seed) * 4 + uint64_t(kind)) +
             uint64_t(row * c.heads + head));
}

// Draws below this one are dropped; 2^32 at probability 1.
inline uint64_t dropout_limit(const Call& c) { return uint64_t(c.dropout * 0x1p32); }

template <class C>
inline C dropout_scale(const Call& c) {
  return c.dropout < 1 ? C(1 / (1 - c.dropout)) : C(0);
}

// Factors for the weights of some keys and queries, 0 or 1 / (1 - p), into ``out``.
template <class C>
void dropout_factors(const Call& c, const Scores<C>& s, int64_t family, int64_t head,
                     C* out) {
  const uint64_t key = dropout_key(c, 0, family, head);
  const uint64_t limit = dropout_limit(c);
  const uint32_t below = uint32_t(limit > 0xffffffffull ? 0xffffffffull : limit);
  const C scale = dropout_scale<C>(c);
  for (int64_t j = 0; j < s.keys; ++j) {
    const uint32_t row = uint32_t(mix(key + uint64_t(s.first_key + j)) >> 32);
    for (int64_t i = 0; i < s.stride; ++i) {
      const uint32_t draw = mix(row + uint32_t(s.first_query + i) * 0x9e3779b9u);
      out[j * s.stride + i] = draw < below ? C(0) : scale;
    }
  }
}

// The factor for the weight of a leaf on itself; kind 1 in mixed families, 2 alone.
template <class C>
C dropout_factor(const Call& c, int64_t kind, int64_t leaf, int64_t head) {
  if (c.dropout == 0) return C(1);
  const uint64_t draw = dropout_key(c, kind, leaf, head) >> 32;
  return draw < dropout_limit(c) ? C(0) : dropout_scale<C>(c);
}

}  // namespace hsa

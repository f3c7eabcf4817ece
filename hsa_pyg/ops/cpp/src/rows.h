// Reading and writing rows of channels in any storage type.
#pragma once

#include "call.h"
#include "lanes.h"

namespace hsa {

struct BFloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

template <class To, class From>
inline To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) { return bit_cast<float>(uint32_t(x.bits) << 16); }
inline float widen(Half x) {
  const uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13;
  // Exponents differ by 112; the product also makes subnormal numbers right.
  const uint32_t bits = bit_cast<uint32_t>(bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return bit_cast<float>(bits | special | (uint32_t(x.bits & 0x8000) << 16));
}

template <class S, class C>
inline S narrow(C x) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    const uint32_t bits = bit_cast<uint32_t>(float(x));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return {uint16_t(nan ? 0x7fc0u : rounded)};
  } else if constexpr (std::is_same_v<S, Half>) {
    const uint32_t all = bit_cast<uint32_t>(float(x));
    const uint32_t bits = all & 0x7fffffffu;
    const uint32_t large = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
    // Adding 1/2 shifts the bits of a subnormal result to the bottom and rounds.
    const uint32_t small =
        bit_cast<uint32_t>(bit_cast<float>(bits) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (bits + 0xfffu + ((bits >> 13) & 1u) - (112u << 23)) >> 13;
    const uint32_t usual = bits < 0x38800000u ? small : normal;
    return {uint16_t((bits >= 0x47800000u ? large : usual) | ((all >> 16) & 0x8000u))};
  } else {
    return S(x);
  }
}

// The type that is computed in.
template <class S>
using Compute = std::conditional_t<std::is_same_v<S, double>, double, float>;

template <class S, class C>
inline void copy_in(C* out, const S* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = widen(x[i]);
}

// Head ``head`` of row ``row`` of a strided tensor.
template <class S, class C>
inline void read_row(C* out, const Strided& x, int64_t row, int64_t head, int64_t n) {
  const S* p = static_cast<const S*>(x.data) + row * x.row + head * x.head;
  if (x.channel == 1) {
    copy_in(out, p, n);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = widen(p[i * x.channel]);
  }
}

template <class C>
inline void add_row(C* out, const C* x, int64_t n, C factor = 1) {
  for (int64_t i = 0; i < n; ++i) out[i] += factor * x[i];
}

template <class C>
inline C dot(const C* a, const C* b, int64_t n) {
  constexpr int L = kLanes<C>;
  Vec<C> sum{};
  int64_t i = 0;
  for (; i + L <= n; i += L) sum += load(a + i) * load(b + i);
  C total = 0;
  for (int x = 0; x < L; ++x) total += sum[x];
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

enum Part { kQuery, kKey, kValue };

inline int64_t part_size(const Call& c, Part part) {
  return part == kValue ? c.width : c.channels;
}

inline int64_t joined_size(const Call& c) { return 2 * c.channels + c.width; }

// q, k or v of a head of a member: a leaf row, or an entity where families are mixed.
template <class S, class C>
inline void read_member(const Call& c, bool mixed, Part part, int64_t member,
                        int64_t head, C* out) {
  const int64_t n = part_size(c, part);
  if (mixed && member < c.families) {
    const C* row = static_cast<const C*>(c.mean) +
                   (member * c.heads + head) * joined_size(c) + part * c.channels;
    copy_in(out, row, n);
    return;
  }
  const Strided& x = part == kQuery ? c.q : part == kKey ? c.k : c.v;
  read_row<S>(out, x, mixed ? c.mixed_leaf[member - c.families] : member, head, n);
}

// The position vector of a node for a head.
template <class C>
inline const C* position_row(const Call& c, int64_t node, int64_t head) {
  const int64_t of = c.position_heads == 1 ? 0 : head;
  return static_cast<const C*>(c.position) +
         (node * c.position_heads + of) * c.position_channels;
}

inline int64_t member_node(const Call& c, bool mixed, int64_t member) {
  return mixed ? c.entity_node[member] : c.leaf_node[member];
}

}  // namespace hsa

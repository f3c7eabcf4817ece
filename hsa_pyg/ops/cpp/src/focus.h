// Semantic focus: which siblings a query keeps. Of equal scores the earlier ones.
#pragma once

#include "tile.h"

namespace hsa {

// Up to here the largest are held in a sorted list, beyond they are found bit by bit.
constexpr int kListed = 32;

template <class C>
inline bool any(Mask<C> x) {
  using word = typename LaneTypes<C>::word;
  word all = 0;
  for (int i = 0; i < kLanes<C>; ++i) all |= x[i];
  return all != 0;
}

// The k-th largest of a column of scores, in each lane; k is at most N.
template <class C, int N>
Vec<C> kth_by_list(const C* s, int64_t keys, int64_t stride, int64_t k) {
  Vec<C> list[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) list[n] = splat(-kInfinity<C>);
  for (int64_t j = 0; j < keys; ++j) {
    Vec<C> x = load(s + j * stride);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const Vec<C> larger = vmax<C>(list[n], x);
      x = vmin<C>(list[n], x);
      list[n] = larger;
    }
  }
  return list[k - 1];
}

template <class C>
Vec<C> kth_by_bits(const C* s, int64_t keys, int64_t stride, int64_t k) {
  using word = typename LaneTypes<C>::word;
  constexpr int top = 8 * sizeof(C) - 1;
  constexpr word rest = std::numeric_limits<word>::max();
  Mask<C> found = Mask<C>{} + std::numeric_limits<word>::min();
  for (int bit = top; bit >= 0; --bit) {
    const Mask<C> tried = bit == top ? Mask<C>{} : found | (word(1) << bit);
    Mask<C> count{};
    for (int64_t j = 0; j < keys; ++j) {
      // Integers in the order of the numbers whose bits they are.
      const Mask<C> bits = (Mask<C>)load(s + j * stride);
      count -= (bits ^ ((bits >> top) & rest)) >= tried;
    }
    found = count >= word(k) ? tried : found;
  }
  return (Vec<C>)(found ^ ((found >> top) & rest));
}

template <class C>
Vec<C> kth_largest(const C* s, int64_t keys, int64_t stride, int64_t k) {
  if (k <= 2) return kth_by_list<C, 2>(s, keys, stride, k);
  if (k <= 4) return kth_by_list<C, 4>(s, keys, stride, k);
  if (k <= 8) return kth_by_list<C, 8>(s, keys, stride, k);
  if (k <= 16) return kth_by_list<C, 16>(s, keys, stride, k);
  if (k <= kListed) return kth_by_list<C, kListed>(s, keys, stride, k);
  return kth_by_bits(s, keys, stride, k);
}

// What a query keeps: scores above the threshold, and those equal to it up to a key.
template <class C>
struct Kept {
  Vec<C> threshold;
  Mask<C> last_tie;

  Mask<C> operator()(Vec<C> score, int64_t key) const {
    using word = typename LaneTypes<C>::word;
    return (score > threshold) | ((score == threshold) & (last_tie >= word(key)));
  }
};

template <class C>
Kept<C> choose_largest(const C* s, int64_t keys, int64_t stride, int64_t k) {
  using word = typename LaneTypes<C>::word;
  const Vec<C> threshold = kth_largest(s, keys, stride, k);
  Mask<C> room = Mask<C>{} + word(k);
  for (int64_t j = 0; j < keys; ++j) room += load(s + j * stride) > threshold;
  Mask<C> last_tie{};
  for (int64_t j = 0; j < keys; ++j) {
    const Mask<C> equal = load(s + j * stride) == threshold;
    last_tie = (equal & (room > 0)) != 0 ? Mask<C>{} + word(j) : last_tie;
    room += equal;
  }
  return {threshold, last_tie};
}

// -infinity in place of scores that are not kept.
template <class C>
void strike_out(const Scores<C>& s, int64_t lane, const Kept<C>& kept) {
  for (int64_t j = 0; j < s.keys; ++j) {
    C* p = s.at + j * s.stride + lane;
    const Vec<C> x = load(p);
    store(p, kept(x, s.first_key + j) ? x : splat(-kInfinity<C>));
  }
}

template <class C>
inline C& own_score(const Scores<C>& s, int64_t query) {
  return s.at[(s.first_query + query - s.first_key) * s.stride + query];
}

// Whether there is nothing to choose in a family: a member need not keep itself.
inline bool keeps_all(const Call& c, int64_t family_size) {
  return c.top_k == 0 || c.top_k >= family_size - (c.includes_self ? 0 : 1);
}

// Whether a leaf keeps itself beside those that compete, in leaf-only families.
inline bool kept_beside(const Call& c, bool mixed) {
  return !mixed && c.self_attention && !c.includes_self;
}

// Keeps the largest of the scores of all keys of a family.
//   first_query: slot of the first query; a leaf of a mixed family that does not keep
//   itself loses its -phi if ``gain`` is given.
//   threshold, last_tie: where to write what is kept, by query, unless null.
template <class S, class C>
void focus_scores(const Call& c, const Scores<C>& s, bool mixed, int64_t first_query,
                  int64_t head, C* gain, C* threshold, int64_t* last_tie) {
  if (keeps_all(c, s.keys)) return;
  const bool competes = mixed && c.includes_self, beside = kept_beside(c, mixed);
  for (int64_t i = 0; competes && i < s.queries; ++i) {
    const int64_t leaf = c.slot_member[first_query + i] - c.families;
    if (leaf >= 0) own_score(s, i) = self_score<S, C>(c, c.mixed_leaf[leaf], head);
  }
  C own[kBlock];
  for (int64_t i = 0; beside && i < s.queries; ++i) {
    own[i] = own_score(s, i);
    own_score(s, i) = -kInfinity<C>;
  }
  for (int64_t lane = 0; lane < s.stride; lane += kLanes<C>) {
    const Kept<C> kept = choose_largest(s.at + lane, s.keys, s.stride, c.top_k);
    strike_out(s, lane, kept);
    if (threshold == nullptr) continue;
    store(threshold + lane, kept.threshold);
    for (int i = 0; i < kLanes<C>; ++i) last_tie[lane + i] = kept.last_tie[i];
  }
  for (int64_t i = 0; beside && i < s.queries; ++i) own_score(s, i) = own[i];
  for (int64_t i = 0; competes && i < s.queries; ++i) {
    const int64_t member = c.slot_member[first_query + i];
    if (gain != nullptr && member >= c.families && own_score(s, i) == -kInfinity<C>)
      gain[member * c.heads + head] = -kInfinity<C>;
    own_score(s, i) = -kInfinity<C>;
  }
}

}  // namespace hsa

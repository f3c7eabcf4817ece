// From scores to contexts, masses and means of one block of queries.
#pragma once

#include "dropout.h"

namespace hsa {

// Weights of a block of keys in place of their scores, for sums that run over several
// blocks: t.top and t.sum hold the largest score and the sum of weights so far.
//   first: whether this is the first block.
// t.factor is what earlier weights shrink by.
template <class C>
void softmax_block(Tile<C>& t, const Scores<C>& s, bool first) {
  constexpr int L = kLanes<C>;
  for (int64_t i = 0; i < s.stride; i += L) {
    Vec<C> top = first ? splat(-kInfinity<C>) : load(t.top + i);
    const Vec<C> before = top;
    for (int64_t j = 0; j < s.keys; ++j)
      top = vmax<C>(top, load(s.at + j * s.stride + i));
    store(t.top + i, top);
    // Where nothing is attended yet: every weight is then exp(-inf) = 0.
    const Vec<C> base = top == -kInfinity<C> ? Vec<C>{} : top;
    Vec<C> sum{};
    for (int64_t j = 0; j < s.keys; ++j) {
      C* p = s.at + j * s.stride + i;
      const Vec<C> weight = vexp(load(p) - base);
      sum += weight;
      store(p, weight);
    }
    if (!first) {
      const Vec<C> factor = vexp(before - base);
      store(t.factor + i, factor);
      sum += load(t.sum + i) * factor;
    }
    store(t.sum + i, sum);
  }
}

// From sums to t.mass, the log-sum-exp, and t.factor, what sums of values take.
template <class C>
void finish_softmax(Tile<C>& t, int64_t queries) {
  for (int64_t i = 0; i < queries; i += kLanes<C>) {
    const Vec<C> sum = load(t.sum + i);
    store(t.mass + i, load(t.top + i) + vlog(sum));
    store(t.factor + i, sum == C(0) ? Vec<C>{} : C(1) / sum);
  }
}

// Drops some of the weights of one family.
template <class C>
void drop_weights(Tile<C>& t, const Scores<C>& s, int64_t family, int64_t head) {
  if (t.call.dropout == 0) return;
  dropout_factors(t.call, s, family, head, t.dropped);
  for (int64_t at = 0; at < s.keys * s.stride; at += kLanes<C>)
    store(s.at + at, load(s.at + at) * load(t.dropped + at));
}

template <class C>
void scale_rows(const Packed<C>& rows, int64_t count, const C* factor) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t x = 0; x < rows.row; x += kLanes<C>)
      store(rows[i] + x, load(rows[i] + x) * factor[i]);
}

// t.out = weighted means of values in a block of whole families, whose rows are packed
// from ``row`` on.
template <class C>
void weigh_block(Tile<C>& t, Slots block, const Scores<C>& s, int64_t head,
                 int64_t row) {
  const Call& c = t.call;
  Packed<C> out = t.out;
  out.at = t.out[row];
  for_families(c, block, [&](int64_t first, int64_t size, int64_t family) {
    drop_weights(t, s, family, head);
    product(size, c.width, size, s.at + first * (s.stride + 1), int64_t(1), s.stride,
            t.v[row + first], t.v.row, out[first], out.row);
  });
  scale_rows(out, block.count, t.factor);
}

// Log-sum-exps of some queries, from t.mass.
template <class C>
void write_masses(const Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  C* const mass = static_cast<C*>(s.mixed ? c.mass : c.leaf_mass);
  for (int64_t i = 0; i < s.count; ++i)
    mass[c.slot_member[s.first + i] * c.heads + head] = t.mass[i];
}

// Contexts of a strip's queries, from t.out.
template <class C>
void write_contexts(const Tile<C>& t, const Strip& s) {
  const Call& c = t.call;
  C* const context = static_cast<C*>(s.slots.mixed ? c.brought : c.leaf_context);
  for (int64_t i = 0; i < s.rows(); ++i) {
    C* row = context + c.slot_member[s.slots.first + i] * c.heads * c.width;
    for (int64_t head = s.head; head < s.head + s.heads; ++head)
      copy_in(row + head * c.width, t.out.of(s, head, i), c.width);
  }
}

// Means of q, k, v, and -phi, the mean of the log-sum-exps, of a leaf-only family whose
// rows are packed from ``row`` on; its queries start at ``lane``.
template <class C>
void write_means(Tile<C>& t, int64_t family, int64_t row, int64_t lane, int64_t size,
                 int64_t head) {
  const Call& c = t.call;
  C* mean = static_cast<C*>(c.mean) + (family * c.heads + head) * joined_size(c);
  const C share = C(1) / C(size);
  const Packed<C>* const parts[3] = {&t.q, &t.k, &t.v};
  for (int part = 0; part < 3; ++part) {
    const Packed<C>& rows = *parts[part];
    const int64_t n = part_size(c, Part(part));
    for (int64_t x = 0; x < n; x += kLanes<C>) {
      Vec<C> sum{};
      for (int64_t i = 0; i < size; ++i) sum += load(rows[row + i] + x);
      store(t.total + x, sum * share);
    }
    copy_in(mean + part * c.channels, t.total, n);
  }
  C sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += t.mass[lane + i];
  static_cast<C*>(c.gain)[family * c.heads + head] = sum * share;
}

}  // namespace hsa

// Along the tree: means and energies upward, contexts downward (steps 1, 3 and 4).
#pragma once

#include "dropout.h"

namespace hsa {

template <class C>
inline C log_add(C a, C b) {
  const C top = a > b ? a : b;
  if (top == -kInfinity<C>) return top;
  return top + std::log1p(std::exp((a > b ? b : a) - top));
}

// mu = sigmoid(gain - mass) and 1 - mu; nothing at all where both are -infinity.
template <class C>
struct Split {
  Split(C gain, C mass) {
    if (gain == -kInfinity<C> && mass == -kInfinity<C>) {
      stay = send = 0;
      log_stay = log_send = -kInfinity<C>;
      return;
    }
    const C difference = gain - mass;
    const C small = std::exp(-std::abs(difference));
    const C log_large = -std::log1p(small), large = 1 / (1 + small);
    const C log_other = log_large - std::abs(difference);
    stay = difference > 0 ? large : small * large;
    send = difference > 0 ? small * large : large;
    log_stay = difference > 0 ? log_large : log_other;
    log_send = difference > 0 ? log_other : log_large;
  }
  C stay, send, log_stay, log_send;
};

inline bool is_mixed(const Call& c, int64_t family) {
  return c.family_first[family] >= c.kind_sizes[1];
}

// n_B / n_A of an entity B and its parent A.
inline double share_of(const Call& c, int64_t entity) {
  return entity < c.families ? c.internal_share[entity]
                             : c.mixed_leaf_share[entity - c.families];
}

inline int64_t parent_of(const Call& c, int64_t entity) {
  return entity < c.families ? c.internal_parent[entity]
                             : c.mixed_leaf_parent[entity - c.families];
}

// Calls work(family, head) for the mixed families of each level, from the bottom up.
template <class F>
void upward(const Call& c, int64_t cost, F&& work) {
  for (int64_t level = c.levels - 1; level >= 0; --level) {
    const int64_t first = c.level_ptr[level];
    const int64_t n = (c.level_ptr[level + 1] - first) * c.heads;
    parallel_for(c.threads, n, cost, [&](int64_t i) {
      const int64_t family = first + i / c.heads;
      if (is_mixed(c, family)) work(family, i % c.heads);
    });
  }
}

// Calls work(node, head) for the internal nodes of each level below the roots'.
template <class F>
void downward(const Call& c, int64_t cost, F&& work) {
  for (int64_t level = 1; level < c.levels; ++level) {
    const int64_t first = c.level_ptr[level];
    const int64_t n = (c.level_ptr[level + 1] - first) * c.heads;
    parallel_for(c.threads, n, cost,
                 [&](int64_t i) { work(first + i / c.heads, i % c.heads); });
  }
}

// Calls work(x, head) for every leaf of a mixed family.
template <class F>
void for_mixed_leaves(const Call& c, int64_t cost, F&& work) {
  parallel_for(c.threads, (c.entities - c.families) * c.heads, cost,
               [&](int64_t i) { work(i / c.heads, i % c.heads); });
}

// Step 1: every mixed family's mean of its members' means, weighed by their leaves.
template <class S, class C>
void means_upward(const Call& c) {
  const int64_t joined = joined_size(c);
  upward(c, 4 * joined, [&](int64_t family, int64_t head) {
    Arena& a = arena();
    a.reset<C>(joined + 16);
    C* const row = a.take<C>(joined);
    C* const total = static_cast<C*>(c.mean) + (family * c.heads + head) * joined;
    std::fill(total, total + joined, C(0));
    for (int64_t i = 0; i < c.family_size[family]; ++i) {
      const int64_t member = c.slot_member[c.family_first[family] + i];
      for (int part = 0; part < 3; ++part)
        read_member<S>(c, true, Part(part), member, head, row + part * c.channels);
      add_row(total, row, joined, C(share_of(c, member)));
    }
  });
}

// -phi of the leaves of mixed families: their scores with themselves.
template <class S, class C>
void leaf_energies(const Call& c) {
  for_mixed_leaves(c, 2 * c.channels, [&](int64_t x, int64_t head) {
    static_cast<C*>(c.gain)[(c.families + x) * c.heads + head] =
        self_score<S, C>(c, c.mixed_leaf[x], head);
  });
}

// Step 3.
template <class C>
void energies_upward(const Call& c) {
  C* const gain = static_cast<C*>(c.gain);
  const C* const mass = static_cast<const C*>(c.mass);
  upward(c, 64, [&](int64_t family, int64_t head) {
    C total = 0;
    for (int64_t i = 0; i < c.family_size[family]; ++i) {
      const int64_t member = c.slot_member[c.family_first[family] + i];
      const int64_t at = member * c.heads + head;
      total += C(share_of(c, member)) * log_add(gain[at], mass[at]);
    }
    gain[family * c.heads + head] = total;
  });
}

// Zeros where no family writes: in rows that are spare, and leaves' log-sum-exps
// outside leaf-only families.
template <class C>
void clear_the_rest(const Call& c) {
  const auto clear = [&](void* x, int64_t from, int64_t rows, int64_t channels) {
    C* const p = static_cast<C*>(x) + from * c.heads * channels;
    std::fill(p, p + rows * c.heads * channels, C(0));
  };
  clear(c.mean, c.families, c.spare_rows, joined_size(c));
  clear(c.context, c.families, c.spare_rows, c.width);
  clear(c.log_weight, c.families, c.spare_rows, 1);
  clear(c.gain, c.entities, c.spare_rows, 1);
  clear(c.mass, c.entities, c.spare_rows + 1, 1);
  clear(c.brought, c.entities, c.spare_rows + 1, c.width);
  clear(c.leaf_mass, c.leaves, 1, 1);
  for (int64_t i = 0; i < c.entities - c.families; ++i)
    clear(c.leaf_mass, c.mixed_leaf[i], 1, 1);
  for (int64_t i = 0; i < c.roots_that_are_leaves; ++i)
    clear(c.leaf_mass, c.root_leaf[i], 1, 1);
}

// Step 4 down to the internal nodes. Roots have no siblings: zeros.
template <class C>
void contexts_downward(const Call& c) {
  const int64_t roots = c.levels > 0 ? c.level_ptr[1] * c.heads : 0;
  C* const context = static_cast<C*>(c.context);
  C* const brought = static_cast<C*>(c.brought);
  C* const log_weight = static_cast<C*>(c.log_weight);
  C* const mass = static_cast<C*>(c.mass);
  const C* const gain = static_cast<const C*>(c.gain);
  std::fill(context, context + roots * c.width, C(0));
  std::fill(brought, brought + roots * c.width, C(0));
  std::fill(log_weight, log_weight + roots, C(0));
  std::fill(mass, mass + roots, C(0));
  downward(c, 3 * c.width, [&](int64_t node, int64_t head) {
    const int64_t at = node * c.heads + head;
    const int64_t above = c.internal_parent[node] * c.heads + head;
    const Split<C> split(gain[at], mass[at]);
    log_weight[at] = log_weight[above] + split.log_stay;
    const C sent = std::exp(log_weight[above] + split.log_send);
    for (int64_t x = 0; x < c.width; ++x)
      context[at * c.width + x] =
          context[above * c.width + x] + sent * brought[at * c.width + x];
  });
}

// Rounds a row of y, which waits where the context within its family was, and keeps what
// it loses by that, if asked to. In C itself y is where it waits.
template <class S, class C>
inline void round_row(const Call& c, int64_t at) {
  if constexpr (!std::is_same_v<S, C>) {
    const C* const wide = static_cast<const C*>(c.leaf_context) + at;
    S* const y = static_cast<S*>(c.y) + at;
    for (int64_t x = 0; x < c.width; ++x) y[x] = narrow<S>(wide[x]);
    if (c.rest == nullptr) return;
    S* const rest = static_cast<S*>(c.rest) + at;
    for (int64_t x = 0; x < c.width; ++x) rest[x] = narrow<S>(wide[x] - C(widen(y[x])));
  }
}

// y of the leaves of leaf-only families, of mixed ones, and of those that are trees.
template <class S, class C>
void write_leaf_only(const Call& c) {
  C* const inner = static_cast<C*>(c.leaf_context);
  const C* const context = static_cast<const C*>(c.context);
  const C* const log_weight = static_cast<const C*>(c.log_weight);
  parallel_for(c.threads, c.kind_sizes[1], 2 * c.heads * c.width, [&](int64_t slot) {
    const int64_t leaf = c.slot_member[slot], family = c.slot_family[slot];
    for (int64_t head = 0; head < c.heads; ++head) {
      const int64_t at = (leaf * c.heads + head) * c.width;
      const int64_t above = family * c.heads + head;
      const C weight = std::exp(log_weight[above]);
      for (int64_t x = 0; x < c.width; ++x)
        inner[at + x] = context[above * c.width + x] + weight * inner[at + x];
      round_row<S, C>(c, at);
    }
  });
}

template <class S, class C>
void write_mixed_leaves(const Call& c) {
  const C* const context = static_cast<const C*>(c.context);
  const C* const brought = static_cast<const C*>(c.brought);
  const C* const log_weight = static_cast<const C*>(c.log_weight);
  for_mixed_leaves(c, 4 * c.width, [&](int64_t i, int64_t head) {
    const int64_t leaf = c.mixed_leaf[i];
    const int64_t at = (c.families + i) * c.heads + head;
    const int64_t above = c.mixed_leaf_parent[i] * c.heads + head;
    const Split<C> split(static_cast<const C*>(c.gain)[at],
                         static_cast<const C*>(c.mass)[at]);
    const C sent = std::exp(log_weight[above] + split.log_send);
    const C own = std::exp(log_weight[above] + split.log_stay) *
                  dropout_factor<C>(c, 1, leaf, head);
    const S* v = static_cast<const S*>(c.v.data) + leaf * c.v.row + head * c.v.head;
    const int64_t row = (leaf * c.heads + head) * c.width;
    C* const wide = static_cast<C*>(c.leaf_context) + row;
    for (int64_t x = 0; x < c.width; ++x)
      wide[x] = context[above * c.width + x] + sent * brought[at * c.width + x] +
                own * C(widen(v[x]));
    round_row<S, C>(c, row);
  });
}

// A tree of one leaf gives its own value, or 0 where no leaf attends to itself.
template <class S, class C>
void write_root_leaves(const Call& c) {
  for (int64_t i = 0; i < c.roots_that_are_leaves * c.heads; ++i) {
    const int64_t leaf = c.root_leaf[i / c.heads], head = i % c.heads;
    const S* v = static_cast<const S*>(c.v.data) + leaf * c.v.row + head * c.v.head;
    const int64_t row = (leaf * c.heads + head) * c.width;
    C* const wide = static_cast<C*>(c.leaf_context) + row;
    const C own = c.self_attention ? dropout_factor<C>(c, 2, leaf, head) : C(0);
    for (int64_t x = 0; x < c.width; ++x)
      wide[x] = own == C(0) ? C(0) : own * C(widen(v[x]));
    round_row<S, C>(c, row);
  }
}

}  // namespace hsa

// The transpose of the passes along the tree. What is carried are gradients of log
// weights, which are finite where a weight is 0.
#pragma once

#include "leaf_gradients.h"
#include "tree.h"

namespace hsa {

// Gradients of the context and of log w of some heads of a leaf-only family, from its
// own leaves, and what each leaf gives to the latter.
template <class S, class C>
void collect_from_leaves(const Call& c, int64_t family, int64_t first_head,
                         int64_t end) {
  Arena& a = arena();
  a.reset<C>(2 * c.width + 32);
  C* const grad = a.take<C>(c.width);
  C* const inner = a.take<C>(c.width);
  C* const total = static_cast<C*>(c.grad_context) + family * c.heads * c.width;
  C* const worth = static_cast<C*>(c.grad_log_weight) + family * c.heads;
  const C* const context =
      static_cast<const C*>(c.context) + family * c.heads * c.width;
  std::fill(total + first_head * c.width, total + end * c.width, C(0));
  std::fill(worth + first_head, worth + end, C(0));
  for (int64_t i = 0; i < c.family_size[family]; ++i) {
    const int64_t leaf = c.slot_member[c.family_first[family] + i];
    for (int64_t head = first_head; head < end; ++head) {
      const int64_t at = leaf * c.heads + head;
      read_row<S>(grad, c.grad_y, leaf, head, c.width);
      copy_in(inner, static_cast<const S*>(c.y) + at * c.width, c.width);
      if (c.rest != nullptr)
        for (int64_t x = 0; x < c.width; ++x)
          inner[x] += C(widen(static_cast<const S*>(c.rest)[at * c.width + x]));
      add_row(inner, context + head * c.width, c.width, C(-1));
      add_row(total + head * c.width, grad, c.width);
      const C own = dot(grad, inner, c.width);
      static_cast<C*>(c.leaf_worth)[at] = own;
      worth[head] += own;
    }
  }
}

template <class S, class C>
void collect_leaf_only(const Call& c) {
  parallel_for(c.threads, c.kind_sizes[0], 16 * c.heads * c.width, [&](int64_t i) {
    const int64_t family = c.family_order[i];
    if (c.family_size[family] <= kBlock)
      collect_from_leaves<S, C>(c, family, 0, c.heads);
  });
  const std::vector<int64_t> large = large_leaf_only_families(c);
  parallel_for(c.threads, int64_t(large.size()) * c.heads, kBlock * c.width,
               [&](int64_t i) {
                 const int64_t head = i % c.heads;
                 collect_from_leaves<S, C>(c, large[i / c.heads], head, head + 1);
               });
}

// What the leaves of mixed families give: <m, grad_y> and the gradient of their log w.
template <class S, class C>
void collect_mixed_leaves(const Call& c) {
  for_mixed_leaves(c, 3 * c.width, [&](int64_t i, int64_t head) {
    Arena& a = arena();
    a.reset<C>(2 * c.width + 32);
    C* const grad = a.take<C>(c.width);
    C* const value = a.take<C>(c.width);
    const int64_t leaf = c.mixed_leaf[i], at = (c.families + i) * c.heads + head;
    const C above =
        static_cast<const C*>(c.log_weight)[c.mixed_leaf_parent[i] * c.heads + head];
    const Split<C> split(static_cast<const C*>(c.gain)[at],
                         static_cast<const C*>(c.mass)[at]);
    read_row<S>(grad, c.grad_y, leaf, head, c.width);
    read_row<S>(value, c.v, leaf, head, c.width);
    static_cast<C*>(c.worth)[at] =
        dot(static_cast<const C*>(c.brought) + at * c.width, grad, c.width);
    static_cast<C*>(c.grad_log_weight)[at] = std::exp(above + split.log_stay) *
                                             dropout_factor<C>(c, 1, leaf, head) *
                                             dot(grad, value, c.width);
  });
}

// Complete the gradients of contexts and log weights in mixed families.
template <class S, class C>
void contexts_upward(const Call& c) {
  C* const grad_context = static_cast<C*>(c.grad_context);
  C* const grad_log_weight = static_cast<C*>(c.grad_log_weight);
  C* const worth = static_cast<C*>(c.worth);
  upward(c, 4 * c.width, [&](int64_t family, int64_t head) {
    Arena& a = arena();
    a.reset<C>(c.width + 16);
    C* const row = a.take<C>(c.width);
    const int64_t above = family * c.heads + head;
    const C log_weight = static_cast<const C*>(c.log_weight)[above];
    C* const total = grad_context + above * c.width;
    std::fill(total, total + c.width, C(0));
    C sum = 0;
    for (int64_t i = 0; i < c.family_size[family]; ++i) {
      const int64_t member = c.slot_member[c.family_first[family] + i];
      const int64_t at = member * c.heads + head;
      if (member < c.families) {
        const C* grad = grad_context + at * c.width;
        worth[at] = dot(static_cast<const C*>(c.brought) + at * c.width, grad, c.width);
        add_row(total, grad, c.width);
      } else {
        read_row<S>(row, c.grad_y, c.mixed_leaf[member - c.families], head, c.width);
        add_row(total, row, c.width);
      }
      const Split<C> split(static_cast<const C*>(c.gain)[at],
                           static_cast<const C*>(c.mass)[at]);
      sum += grad_log_weight[at] + std::exp(log_weight + split.log_send) * worth[at];
    }
    grad_log_weight[above] = sum;
  });
}

// Gradients of -phi and L of one entity, given its parent's.
template <class C>
void split_gradient(const Call& c, int64_t entity, int64_t head, C outer) {
  const int64_t at = entity * c.heads + head;
  const int64_t above = parent_of(c, entity) * c.heads + head;
  const Split<C> split(static_cast<const C*>(c.gain)[at],
                       static_cast<const C*>(c.mass)[at]);
  const C weight = std::exp(static_cast<const C*>(c.log_weight)[above]);
  const C worth = static_cast<const C*>(c.worth)[at];
  const C turn = split.send * (static_cast<const C*>(c.grad_log_weight)[at] -
                               weight * split.stay * worth);
  C* const grad_gain = static_cast<C*>(c.grad_gain);
  const C shared = grad_gain[above] * C(share_of(c, entity));
  grad_gain[at] = turn + outer + shared * split.stay;
  static_cast<C*>(c.offset)[at] =
      shared * split.send - turn - weight * split.send * worth;
}

template <class C>
void energies_downward(const Call& c) {
  const C* const outer = static_cast<const C*>(c.outer_gain);
  const auto outer_of = [&](int64_t at) { return outer == nullptr ? C(0) : outer[at]; };
  const int64_t roots = c.levels > 0 ? c.level_ptr[1] * c.heads : 0;
  for (int64_t i = 0; i < roots; ++i) static_cast<C*>(c.grad_gain)[i] = outer_of(i);
  downward(c, 64, [&](int64_t node, int64_t head) {
    split_gradient(c, node, head, outer_of(node * c.heads + head));
  });
  for_mixed_leaves(c, 64, [&](int64_t x, int64_t head) {
    split_gradient(c, c.families + x, head, C(0));
  });
}

// From gradients of means to what every leaf below gets: a mean's share, and what comes
// from above. In place, on the rows of internal nodes of grad_entity.
template <class C>
void mean_gradients_downward(const Call& c) {
  const int64_t joined = joined_size(c);
  C* const grad = static_cast<C*>(c.grad_entity);
  const int64_t roots = c.levels > 0 ? c.level_ptr[1] * c.heads : 0;
  std::fill(grad, grad + roots * joined, C(0));
  downward(c, 2 * joined, [&](int64_t node, int64_t head) {
    C* row = grad + (node * c.heads + head) * joined;
    const C* above = grad + (c.internal_parent[node] * c.heads + head) * joined;
    const C share = C(1) / C(c.internal_count[node]);
    for (int64_t x = 0; x < joined; ++x) row[x] = row[x] * share + above[x];
  });
}

template <class S, class C>
void write_mixed_leaf_gradients(const Call& c) {
  parallel_for(
      c.threads, c.entities - c.families, 6 * joined_size(c) * c.heads, [&](int64_t i) {
        Arena& a = arena();
        a.reset<C>(c.width + 16);
        C* const grad = a.take<C>(c.width);
        const int64_t leaf = c.mixed_leaf[i], parent = c.mixed_leaf_parent[i];
        for (int64_t head = 0; head < c.heads; ++head) {
          const int64_t at = (c.families + i) * c.heads + head,
                        above = parent * c.heads + head;
          const Split<C> split(static_cast<const C*>(c.gain)[at],
                               static_cast<const C*>(c.mass)[at]);
          const C weight =
              std::exp(static_cast<const C*>(c.log_weight)[above] + split.log_stay);
          read_row<S>(grad, c.grad_y, leaf, head, c.width);
          C pull = 0;
          if (c.self_attention) {
            add_row(entity_gradient<S, C>(c, kValue, c.families + i, head), grad,
                    c.width, weight * dropout_factor<C>(c, 1, leaf, head));
            pull = static_cast<const C*>(c.grad_gain)[at] + leaf_pull<C>(c, leaf, head);
          }
          const C* mean = mean_gradient<C>(c, parent, head);
          for (int part = 0; part < 3; ++part)
            write_leaf<S>(c, Part(part), leaf, head,
                          entity_gradient<S, C>(c, Part(part), c.families + i, head),
                          C(1), mean, pull);
          pull_position(c, leaf, head, pull);
        }
      });
}

template <class S, class C>
void write_root_leaf_gradients(const Call& c) {
  const int64_t joined = joined_size(c);
  std::vector<C> zero(joined), grad(c.width);
  for (int64_t i = 0; i < c.roots_that_are_leaves * c.heads; ++i) {
    const int64_t leaf = c.root_leaf[i / c.heads], head = i % c.heads;
    const C own = c.self_attention ? dropout_factor<C>(c, 2, leaf, head) : C(0);
    read_row<S>(grad.data(), c.grad_y, leaf, head, c.width);
    for (C& x : grad) x = own == C(0) ? C(0) : x * own;
    const C pull = leaf_pull<C>(c, leaf, head);
    for (int part = 0; part < 3; ++part)
      write_leaf<S>(c, Part(part), leaf, head,
                    part == kValue ? grad.data() : zero.data(), C(1), zero.data(),
                    pull);
    pull_position(c, leaf, head, pull);
  }
}

}  // namespace hsa

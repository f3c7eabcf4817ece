// What a block of queries gets from above, and where gradients go.
#pragma once

#include "leaf_gradients.h"
#include "tree.h"

namespace hsa {

// t.grad, what the contexts of some queries get, and t.mass and t.offset.
template <class S, class C>
void read_context_gradients(Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  const C* const log_weight = static_cast<const C*>(c.log_weight);
  const C* const mass = static_cast<const C*>(s.mixed ? c.mass : c.leaf_mass);
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t member = c.slot_member[s.first + i];
    const int64_t family = c.slot_family[s.first + i];
    const int64_t at = member * c.heads + head, above = family * c.heads + head;
    C* const row = t.grad + i * t.value_row;
    C weight = std::exp(log_weight[above]);
    if (!s.mixed) {
      read_row<S>(row, c.grad_y, member, head, c.width);
      // -phi of a leaf-only family is the mean of its log-sum-exps.
      t.offset[i] = static_cast<const C*>(c.grad_gain)[above] / C(c.family_size[family]);
      if (c.family_size[family] > kBlock)
        t.offset[i] -= static_cast<const C*>(c.leaf_worth)[at];
    } else {
      weight = std::exp(log_weight[above] +
                        Split<C>(static_cast<const C*>(c.gain)[at], mass[at]).log_send);
      t.offset[i] = static_cast<const C*>(c.offset)[at];
      if (member < c.families)
        copy_in(row, static_cast<const C*>(c.grad_context) + at * c.width, c.width);
      else
        read_row<S>(row, c.grad_y, c.mixed_leaf[member - c.families], head, c.width);
    }
    for (int64_t x = 0; x < c.width; ++x) row[x] *= weight;
    // A query that attends to nothing: exp(score - infinity) = 0.
    t.mass[i] = mass[at] == -kInfinity<C> ? kInfinity<C> : mass[at];
  }
  transpose(t.grad, t.value_row, s.count, c.width, t.across_grad, t.lane_row);
}

// Gradients of some queries from t.grad_q, and of what their positions get.
template <class S, class C>
void write_query_gradients(const Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t member = c.slot_member[s.first + i];
    const C* grad = t.grad_q + i * t.scored_row;
    if (s.mixed) {
      write_entity(c, kQuery, member, head, grad);
    } else {
      const C pull = leaf_pull<C>(c, member, head);
      const C* mean = mean_gradient<C>(c, c.slot_family[s.first + i], head);
      write_leaf<S>(c, kQuery, member, head, grad, C(c.scale), mean, pull);
      pull_position(c, member, head, pull);
    }
    add_position_gradient(c, s.mixed, member, head, grad);
  }
}

// The same of keys and values.
template <class S, class C>
void write_key_gradients(const Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t member = c.slot_member[s.first + i];
    const C* key = t.grad_k + i * t.scored_row;
    const C* value = t.grad_v + i * t.value_row;
    if (s.mixed) {
      write_entity(c, kKey, member, head, key);
      write_entity(c, kValue, member, head, value);
    } else {
      const C* mean = mean_gradient<C>(c, c.slot_family[s.first + i], head);
      const C pull = leaf_pull<C>(c, member, head);
      write_leaf<S>(c, kKey, member, head, key, C(c.scale), mean, pull);
      write_leaf<S>(c, kValue, member, head, value, C(1), mean, C(0));
    }
    add_position_gradient(c, s.mixed, member, head, key);
  }
}

}  // namespace hsa

// What a block of queries gets from above, and where gradients go.
#pragma once

#include "family_parts.h"
#include "leaf_gradients.h"
#include "tree.h"

namespace hsa {

// Gradients of y, or of contexts of internal nodes, into t.grad.
template <class S, class C>
void read_gradients(const Tile<C>& t, const Strip& s) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.rows(); ++i) {
    const int64_t member = c.slot_member[s.slots.first + i];
    for (int64_t head = s.head; head < s.head + s.heads; ++head) {
      C* const row = t.grad.of(s, head, i);
      if (!s.slots.mixed)
        read_row<S>(row, c.grad_y, member, head, c.width);
      else if (member >= c.families)
        read_row<S>(row, c.grad_y, c.mixed_leaf[member - c.families], head, c.width);
      else
        copy_in(
            row,
            static_cast<const C*>(c.grad_context) + (member * c.heads + head) * c.width,
            c.width);
    }
  }
}

// From them to what the contexts inside families get, for the head in work: also
// across, and t.mass and t.offset.
template <class C>
void weigh_gradients(Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  const C* const log_weight = static_cast<const C*>(c.log_weight);
  const C* const mass = static_cast<const C*>(s.mixed ? c.mass : c.leaf_mass);
  int64_t last = -1;
  C weight = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t family = c.slot_family[s.first + i];
    const int64_t at = c.slot_member[s.first + i] * c.heads + head;
    const int64_t above = family * c.heads + head;
    if (s.mixed) {
      weight = std::exp(log_weight[above] +
                        Split<C>(static_cast<const C*>(c.gain)[at], mass[at]).log_send);
      t.offset[i] = static_cast<const C*>(c.offset)[at];
    } else {
      if (family != last) weight = std::exp(log_weight[above]);
      // -phi of a leaf-only family is the mean of its log-sum-exps.
      t.offset[i] =
          static_cast<const C*>(c.grad_gain)[above] / C(c.family_size[family]);
      if (c.family_size[family] > kBlock)
        t.offset[i] -= static_cast<const C*>(c.leaf_worth)[at];
    }
    last = family;
    t.factor[i] = weight;
    // A query that attends to nothing: exp(score - infinity) = 0.
    t.mass[i] = mass[at] == -kInfinity<C> ? kInfinity<C> : mass[at];
  }
  scale_rows(t.grad, s.count, t.factor);
  transpose(t.grad.at, t.grad.row, s.count, c.width, t.across_grad, t.lane_row);
}

// Gradients of a strip's queries from t.grad_q, and of what their positions get.
template <class S, class C>
void write_query_gradients(const Tile<C>& t, const Strip& s) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.rows(); ++i) {
    const int64_t member = c.slot_member[s.slots.first + i];
    const int64_t family = c.slot_family[s.slots.first + i];
    for (int64_t head = s.head; head < s.head + s.heads; ++head) {
      const C* grad = t.grad_q.of(s, head, i);
      if (s.slots.mixed) {
        write_entity<S>(c, kQuery, member, head, grad);
      } else {
        const C pull = leaf_pull<C>(c, member, head);
        write_leaf<S>(c, kQuery, member, head, grad, C(c.scale),
                      mean_gradient<C>(c, family, head), pull);
        pull_position(c, member, head, pull);
      }
      add_position_gradient(c, s.slots.mixed, member, head, grad);
    }
  }
}

// The same of keys.
template <class S, class C>
void write_key_gradients(const Tile<C>& t, const Strip& s) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.rows(); ++i) {
    const int64_t member = c.slot_member[s.slots.first + i];
    const int64_t family = c.slot_family[s.slots.first + i];
    for (int64_t head = s.head; head < s.head + s.heads; ++head) {
      const C* grad = t.grad_k.of(s, head, i);
      if (s.slots.mixed)
        write_entity<S>(c, kKey, member, head, grad);
      else
        write_leaf<S>(c, kKey, member, head, grad, C(c.scale),
                      mean_gradient<C>(c, family, head), leaf_pull<C>(c, member, head));
      add_position_gradient(c, s.slots.mixed, member, head, grad);
    }
  }
}

// The same of values.
template <class S, class C>
void write_value_gradients(const Tile<C>& t, const Strip& s) {
  const Call& c = t.call;
  for (int64_t i = 0; i < s.rows(); ++i) {
    const int64_t member = c.slot_member[s.slots.first + i];
    const int64_t family = c.slot_family[s.slots.first + i];
    for (int64_t head = s.head; head < s.head + s.heads; ++head) {
      const C* grad = t.grad_v.of(s, head, i);
      if (s.slots.mixed)
        write_entity<S>(c, kValue, member, head, grad);
      else
        write_leaf<S>(c, kValue, member, head, grad, C(1),
                      mean_gradient<C>(c, family, head), C(0));
    }
  }
}

}  // namespace hsa

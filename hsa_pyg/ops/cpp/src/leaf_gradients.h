// Where gradients of leaves and entities are written.
#pragma once

#include "rows.h"

namespace hsa {

// The gradient of s(i, i) of a leaf, outside leaf-only families' softmax.
template <class C>
inline C leaf_pull(const Call& c, int64_t leaf, int64_t head) {
  if (c.leaf_pull == nullptr || !c.self_attention) return C(0);
  return static_cast<const C*>(c.leaf_pull)[leaf * c.heads + head];
}

// What every leaf below an internal node gets through the means: q, k, v joined.
template <class C>
inline const C* mean_gradient(const Call& c, int64_t node, int64_t head) {
  return static_cast<const C*>(c.grad_entity) +
         (node * c.heads + head) * joined_size(c);
}

// A part of a head of a leaf's gradients: what its family gives times ``scale``, what
// the means give, and for q and k, what ``pull`` on the score with itself gives.
template <class S, class C>
void write_leaf(const Call& c, Part part, int64_t leaf, int64_t head, const C* grad,
                C scale, const C* mean, C pull) {
  const int64_t n = part_size(c, part);
  void* const to = part == kQuery ? c.grad_q : part == kKey ? c.grad_k : c.grad_v;
  S* const out = static_cast<S*>(to) + (leaf * c.heads + head) * n;
  mean += part * c.channels;
  if (part == kValue || pull == C(0)) {
    for (int64_t x = 0; x < n; ++x) out[x] = narrow<S>(grad[x] * scale + mean[x]);
    return;
  }
  const Strided& x = part == kQuery ? c.k : c.q;
  const S* other = static_cast<const S*>(x.data) + leaf * x.row + head * x.head;
  pull *= C(c.scale);
  for (int64_t i = 0; i < n; ++i)
    out[i] = narrow<S>(grad[i] * scale + mean[i] + pull * C(widen(other[i])));
}

// Where a part of a head of an entity's gradients is gathered: for leaves in their
// final place, if that has the type for it.
template <class S, class C>
inline C* entity_gradient(const Call& c, Part part, int64_t entity, int64_t head) {
  if (std::is_same_v<S, C> && entity >= c.families) {
    void* const to = part == kQuery ? c.grad_q : part == kKey ? c.grad_k : c.grad_v;
    const int64_t row = c.mixed_leaf[entity - c.families] * c.heads + head;
    return static_cast<C*>(to) + row * part_size(c, part);
  }
  return static_cast<C*>(c.grad_entity) + (entity * c.heads + head) * joined_size(c) +
         part * c.channels;
}

// Writes a part of them.
template <class S, class C>
void write_entity(const Call& c, Part part, int64_t entity, int64_t head,
                  const C* grad) {
  C* const row = entity_gradient<S, C>(c, part, entity, head);
  const C scale = part == kValue ? C(1) : C(c.scale);
  for (int64_t x = 0; x < part_size(c, part); ++x) row[x] = grad[x] * scale;
}

// Adds what a member's position gets: it lies behind the channels of ``grad``.
template <class C>
void add_position_gradient(const Call& c, bool mixed, int64_t member, int64_t head,
                           const C* grad) {
  if (c.position == nullptr) return;
  const int64_t of = c.position_heads == 1 ? 0 : head;
  C* const eps = static_cast<C*>(mixed ? c.grad_eps : c.grad_leaf_eps) +
                 (member * c.position_heads + of) * c.position_channels;
  add_row(eps, grad + c.channels, c.position_channels);
}

// Adds the gradient of eps . eps of a leaf.
template <class C>
void pull_position(const Call& c, int64_t leaf, int64_t head, C pull) {
  if (c.position == nullptr || pull == C(0)) return;
  const int64_t of = c.position_heads == 1 ? 0 : head;
  C* const grad = static_cast<C*>(c.grad_leaf_eps) +
                  (leaf * c.position_heads + of) * c.position_channels;
  add_row(grad, position_row<C>(c, c.leaf_node[leaf], head), c.position_channels,
          2 * pull);
}

}  // namespace hsa

// The transpose of attention inside families. Weights are computed again from scores
// and the log-sum-exps of the forward pass.
#pragma once

#include "family.h"
#include "tree_backward.h"

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
  transpose(t.grad, t.value_row, s.count, c.width, t.across_grad, t.lane_row, int64_t(0),
            C(1));
}

// From scores to weights (t.dropped: after dropout) and gradients of scores.
//   query_row: where the queries lie in the packed blocks; key_row likewise.
//   complete: all keys of the queries are here, so that <context, its gradient> is
//   known from the weights and still to be taken from the offset.
// Gives the weights that values were multiplied by.
template <class C>
C* score_gradients(Tile<C>& t, const Scores<C>& s, int64_t query_row, int64_t key_row,
                   int64_t family, int64_t head, bool complete) {
  constexpr int L = kLanes<C>;
  const Call& c = t.call;
  product(s.keys, s.queries, c.width, t.v + key_row * t.value_row, t.value_row,
          int64_t(1), t.across_grad + query_row, t.lane_row, t.grad_score, s.stride);
  const bool drops = c.dropout > 0;
  if (drops) dropout_factors(c, s, family, head, t.dropped);
  for (int64_t i = 0; i < s.stride; i += L) {
    const Vec<C> mass = load(t.mass + query_row + i);
    Vec<C> worth{};
    for (int64_t at = i; at < s.keys * s.stride; at += s.stride) {
      const Vec<C> weight = vexp(load(s.at + at) - mass);
      store(s.at + at, weight);
      Vec<C> grad = load(t.grad_score + at);
      if (drops) {
        const Vec<C> kept = load(t.dropped + at);
        grad *= kept;
        store(t.dropped + at, weight * kept);
        store(t.grad_score + at, grad);
      }
      worth += weight * grad;
    }
    Vec<C> offset = load(t.offset + query_row + i);
    if (complete) offset -= worth;
    for (int64_t at = i; at < s.keys * s.stride; at += s.stride)
      store(t.grad_score + at, load(s.at + at) * (load(t.grad_score + at) + offset));
  }
  return drops ? t.dropped : s.at;
}

template <class C>
void query_gradients(Tile<C>& t, const Scores<C>& s, int64_t query_row, int64_t key_row,
                     bool add) {
  product(s.queries, t.scored, s.keys, t.grad_score, int64_t(1), s.stride,
          t.k + key_row * t.scored_row, t.scored_row, t.grad_q + query_row * t.scored_row,
          t.scored_row, add);
}

template <class C>
void key_gradients(Tile<C>& t, const Scores<C>& s, const C* weight, int64_t query_row,
                   int64_t key_row, bool add) {
  product(s.keys, t.scored, s.queries, t.grad_score, s.stride, int64_t(1),
          t.q + query_row * t.scored_row, t.scored_row,
          t.grad_k + key_row * t.scored_row, t.scored_row, add);
  product(s.keys, t.call.width, s.queries, weight, s.stride, int64_t(1),
          t.grad + query_row * t.value_row, t.value_row, t.grad_v + key_row * t.value_row,
          t.value_row, add);
}

template <class S, class C>
void write_gradients(const Tile<C>& t, Slots s, int64_t head) {
  const Call& c = t.call;
  const int64_t joined = joined_size(c), D = c.channels;
  const C scale = C(c.scale);
  const int64_t of = c.position_heads == 1 ? 0 : head;
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t member = c.slot_member[s.first + i];
    const C* q = t.grad_q + i * t.scored_row;
    const C* k = t.grad_k + i * t.scored_row;
    const C* v = t.grad_v + i * t.value_row;
    if (s.mixed) {
      C* row = static_cast<C*>(c.grad_entity) + (member * c.heads + head) * joined;
      for (int64_t x = 0; x < D; ++x) row[x] = q[x] * scale;
      for (int64_t x = 0; x < D; ++x) row[D + x] = k[x] * scale;
      copy_in(row + 2 * D, v, c.width);
    } else {
      const C* mean = static_cast<const C*>(c.grad_entity) +
                      (c.slot_family[s.first + i] * c.heads + head) * joined;
      const C pull = leaf_pull<C>(c, member, head);
      write_leaf<S>(c, member, head, q, k, v, scale, mean, pull);
      pull_position(c, member, head, pull);
    }
    if (c.position == nullptr) continue;
    C* eps = static_cast<C*>(s.mixed ? c.grad_eps : c.grad_leaf_eps) +
             (member * c.position_heads + of) * c.position_channels;
    add_row(eps, q + D, c.position_channels);
    add_row(eps, k + D, c.position_channels);
  }
}

template <class S, class C>
void whole_families_backward(Tile<C>& t, Slots tile, int64_t head) {
  const Call& c = t.call;
  t.template read_queries<S>(tile, head);
  t.template read_keys<S>(tile, head);
  read_context_gradients<S>(t, tile, head);
  for (int64_t at = 0; at < tile.count;) {
    const int64_t family = c.slot_family[tile.first + at];
    const int64_t size = c.family_size[family];
    const Scores<C> s = t.scores(tile.mixed, at, size, at, size, 0, 0, tile.first + at);
    const C* weight = score_gradients(t, s, at, at, family, head, !tile.mixed);
    query_gradients(t, s, at, at, false);
    key_gradients(t, s, weight, at, at, false);
    at += size;
  }
  write_gradients<S>(t, tile, head);
}

// A piece of a large family: once its queries against all keys, once its keys against
// all queries, so that no sum is shared between pieces.
template <class S, class C>
void piece_backward(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  const int64_t begin = c.family_first[tile.family], place = own.first - begin;
  t.template read_queries<S>(own, head);
  read_context_gradients<S>(t, own, head);
  for (int64_t j = 0; j < tile.family_size; j += kBlock) {
    const int64_t keys = std::min(kBlock, tile.family_size - j);
    t.template read_keys<S>({own.mixed, begin + j, keys}, head);
    const Scores<C> s = t.scores(own.mixed, 0, keys, 0, own.count, j, place, begin + j);
    score_gradients(t, s, 0, 0, tile.family, head, false);
    query_gradients(t, s, 0, 0, j > 0);
  }
  t.template read_keys<S>(own, head);
  for (int64_t i = 0; i < tile.family_size; i += kBlock) {
    const int64_t queries = std::min(kBlock, tile.family_size - i);
    t.template read_queries<S>({own.mixed, begin + i, queries}, head);
    read_context_gradients<S>(t, {own.mixed, begin + i, queries}, head);
    const Scores<C> s = t.scores(own.mixed, 0, own.count, 0, queries, place, i, own.first);
    const C* weight = score_gradients(t, s, 0, 0, tile.family, head, false);
    key_gradients(t, s, weight, 0, 0, i > 0);
  }
  write_gradients<S>(t, own, head);
}

template <class S, class C>
void families_backward(const Call& c, bool mixed) {
  const int64_t leaf_tiles = c.kind_sizes[2];
  const int64_t first = mixed ? leaf_tiles : 0;
  const int64_t tiles = mixed ? c.kind_sizes[5] : leaf_tiles;
  parallel_for(c.threads, tiles, tile_cost(c), [&](int64_t i) {
    Tile<C> t(c, true);
    const TileInfo tile = tile_info(c, first + i);
    for (int64_t head = 0; head < c.heads; ++head) {
      if (tile.piece())
        piece_backward<S>(t, tile, head);
      else
        whole_families_backward<S>(t, tile.slots, head);
    }
  });
}

}  // namespace hsa

// The transpose of attention inside families. Weights are computed again from scores
// and the log-sum-exps of the forward pass.
#pragma once

#include "family.h"

namespace hsa {

// From scores to weights (t.dropped: after dropout) and gradients of scores.
//   query_row: where the queries lie in the packed blocks; key_row likewise.
//   block: whole families, or null for a piece of one.
// In leaf-only families whose keys are all here <context, its gradient> is known from
// the weights, and still to be taken from the offset. Gives the weights that values
// were multiplied by.
template <class C>
C* score_gradients(Tile<C>& t, const Scores<C>& s, int64_t query_row, int64_t key_row,
                   int64_t family, int64_t head, const Slots* block) {
  constexpr int L = kLanes<C>;
  const Call& c = t.call;
  product(s.keys, s.queries, c.width, t.v[key_row], t.v.row, int64_t(1),
          t.across_grad + query_row, t.lane_row, t.grad_score, s.stride);
  const bool drops = c.dropout > 0, complete = block != nullptr && !block->mixed;
  if (block != nullptr) t.fill_between_families(*block, s, t.grad_score, C(0));
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

// Gradients of queries from those of some scores, at rows of the packed blocks.
template <class C>
void query_gradients(Tile<C>& t, const C* grad_score, int64_t stride, int64_t query_row,
                     int64_t queries, int64_t key_row, int64_t keys, bool add) {
  product(queries, t.scored, keys, grad_score, int64_t(1), stride, t.k[key_row],
          t.k.row, t.grad_q[query_row], t.grad_q.row, add);
}

// The same of keys and values.
template <class C>
void key_gradients(Tile<C>& t, const C* grad_score, const C* weight, int64_t stride,
                   int64_t query_row, int64_t queries, int64_t key_row, int64_t keys,
                   bool add) {
  product(keys, t.scored, queries, grad_score, stride, int64_t(1), t.q[query_row],
          t.q.row, t.grad_k[key_row], t.grad_k.row, add);
  product(keys, t.call.width, queries, weight, stride, int64_t(1), t.grad[query_row],
          t.grad.row, t.grad_v[key_row], t.grad_v.row, add);
}

template <class S, class C>
void whole_families_backward(Tile<C>& t, const Strip& strip, int64_t head) {
  const Call& c = t.call;
  const Slots all = strip.slots;
  t.select(strip, head);
  t.lay_queries_across(all.count);
  weigh_gradients(t, all, head);
  for (int64_t at = 0; at < all.count;) {
    const Slots own = block_at(c, all, at, kLanes<C>);
    const Scores<C> s =
        t.scores(all.mixed, at, own.count, at, own.count, 0, 0, own.first);
    t.fill_between_families(own, s, s.at, -kInfinity<C>);
    focus_scores<S>(c, s, all.mixed, own.first, head, static_cast<C*>(nullptr),
                    static_cast<C*>(nullptr), nullptr);
    const C* weight =
        score_gradients(t, s, at, at, c.slot_family[own.first], head, &own);
    for_families(c, own, [&](int64_t first, int64_t size, int64_t) {
      const int64_t row = at + first, shift = first * (s.stride + 1);
      query_gradients(t, t.grad_score + shift, s.stride, row, size, row, size, false);
      key_gradients(t, t.grad_score + shift, weight + shift, s.stride, row, size, row,
                    size, false);
    });
    at += own.count;
  }
}

template <class S, class C>
void strip_backward(Tile<C>& t, const Strip& strip) {
  t.template read_queries<S>(strip);
  t.template read_keys<S>(strip);
  read_gradients<S>(t, strip);
  for (int64_t head = strip.head; head < strip.head + strip.heads; ++head)
    whole_families_backward<S>(t, strip, head);
  write_query_gradients<S>(t, strip);
  write_key_gradients<S>(t, strip);
  write_value_gradients<S>(t, strip);
}

// Queries of one head, and what their contexts get.
template <class S, class C>
void read_block_of_queries(Tile<C>& t, const Strip& strip) {
  t.template read_queries<S>(strip);
  read_gradients<S>(t, strip);
  t.select(strip, strip.head);
  t.lay_queries_across(strip.rows());
  weigh_gradients(t, strip.slots, strip.head);
}

// A piece of a large family: once its queries against all keys, once its keys against
// all queries, so that no sum is shared between pieces.
template <class S, class C>
void piece_backward(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  const Strip strip{own, head, 1};
  const int64_t begin = c.family_first[tile.family], place = own.first - begin;
  read_block_of_queries<S>(t, strip);
  for (int64_t j = 0; j < tile.family_size; j += kBlock) {
    const int64_t keys = std::min(kBlock, tile.family_size - j);
    t.template read_keys<S>({{own.mixed, begin + j, keys}, head, 1});
    const Scores<C> s = t.scores(own.mixed, 0, keys, 0, own.count, j, place, begin + j);
    score_gradients(t, s, 0, 0, tile.family, head, nullptr);
    query_gradients(t, t.grad_score, s.stride, 0, own.count, 0, keys, j > 0);
  }
  t.template read_keys<S>(strip);
  for (int64_t i = 0; i < tile.family_size; i += kBlock) {
    const int64_t queries = std::min(kBlock, tile.family_size - i);
    read_block_of_queries<S>(t, {{own.mixed, begin + i, queries}, head, 1});
    const Scores<C> s =
        t.scores(own.mixed, 0, own.count, 0, queries, place, i, own.first);
    const C* weight = score_gradients(t, s, 0, 0, tile.family, head, nullptr);
    key_gradients(t, t.grad_score, weight, s.stride, 0, queries, 0, own.count, i > 0);
  }
  write_query_gradients<S>(t, strip);
  write_key_gradients<S>(t, strip);
  write_value_gradients<S>(t, strip);
}

template <class S, class C>
void families_backward(const Call& c, bool mixed) {
  const int64_t leaf_tiles = c.kind_sizes[2];
  const int64_t first = mixed ? leaf_tiles : 0;
  const int64_t tiles = mixed ? c.kind_sizes[5] : leaf_tiles;
  parallel_for(c.threads, tiles, tile_cost(c), [&](int64_t i) {
    const TileInfo tile = tile_info(c, first + i);
    const bool focused = is_focused(c, tile);
    Tile<C> t(c, true, focused ? tile.family_size * kBlock : 0);
    if (!tile.piece())
      return for_strips(c, tile.slots, t.per,
                        [&](const Strip& strip) { strip_backward<S>(t, strip); });
    for (int64_t head = 0; head < c.heads; ++head) {
      if (focused)
        focused_queries_backward<S>(t, tile, head);
      else
        piece_backward<S>(t, tile, head);
    }
  });
  if (c.top_k == 0) return;
  parallel_for(c.threads, tiles, tile_cost(c), [&](int64_t i) {
    const TileInfo tile = tile_info(c, first + i);
    if (!is_focused(c, tile)) return;
    Tile<C> t(c, true);
    for (int64_t head = 0; head < c.heads; ++head)
      focused_keys_backward<S>(t, tile, head);
  });
}

}  // namespace hsa

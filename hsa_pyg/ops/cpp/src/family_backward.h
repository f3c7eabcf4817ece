// The transpose of attention inside families. Weights are computed again from scores
// and the log-sum-exps of the forward pass.
#pragma once

#include "family.h"

namespace hsa {

// From scores to weights (t.dropped: after dropout) and gradients of scores.
//   query_row: where the queries lie in the packed blocks; key_row likewise.
//   block: whole families, or null for a piece of one.
// In leaf-only families whose keys are all here <context, its gradient> is known from
// the weights, and still to be taken from the offset. Gives the weights that values were
// multiplied by.
template <class C>
C* score_gradients(Tile<C>& t, const Scores<C>& s, int64_t query_row, int64_t key_row,
                   int64_t family, int64_t head, const Slots* block) {
  constexpr int L = kLanes<C>;
  const Call& c = t.call;
  product(s.keys, s.queries, c.width, t.v + key_row * t.value_row, t.value_row,
          int64_t(1), t.across_grad + query_row, t.lane_row, t.grad_score, s.stride);
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
  product(queries, t.scored, keys, grad_score, int64_t(1), stride,
          t.k + key_row * t.scored_row, t.scored_row, t.grad_q + query_row * t.scored_row,
          t.scored_row, add);
}

// The same of keys and values.
template <class C>
void key_gradients(Tile<C>& t, const C* grad_score, const C* weight, int64_t stride,
                   int64_t query_row, int64_t queries, int64_t key_row, int64_t keys,
                   bool add) {
  product(keys, t.scored, queries, grad_score, stride, int64_t(1),
          t.q + query_row * t.scored_row, t.scored_row,
          t.grad_k + key_row * t.scored_row, t.scored_row, add);
  product(keys, t.call.width, queries, weight, stride, int64_t(1),
          t.grad + query_row * t.value_row, t.value_row, t.grad_v + key_row * t.value_row,
          t.value_row, add);
}

template <class S, class C>
void whole_families_backward(Tile<C>& t, Slots tile, int64_t head) {
  const Call& c = t.call;
  t.template read_queries<S>(tile, head);
  t.template read_keys<S>(tile, head);
  read_context_gradients<S>(t, tile, head);
  for (int64_t at = 0; at < tile.count;) {
    const Slots own = block_at(c, tile, at, kLanes<C>);
    const Scores<C> s = t.scores(tile.mixed, at, own.count, at, own.count, 0, 0, own.first);
    t.fill_between_families(own, s, s.at, -kInfinity<C>);
    focus_scores<S>(c, s, tile.mixed, own.first, head, static_cast<C*>(nullptr),
                    static_cast<C*>(nullptr), nullptr);
    const C* weight = score_gradients(t, s, at, at, c.slot_family[own.first], head, &own);
    for_families(c, own, [&](int64_t first, int64_t size, int64_t) {
      const int64_t row = at + first, shift = first * (s.stride + 1);
      query_gradients(t, t.grad_score + shift, s.stride, row, size, row, size, false);
      key_gradients(t, t.grad_score + shift, weight + shift, s.stride, row, size, row,
                    size, false);
    });
    at += own.count;
  }
  write_query_gradients<S>(t, tile, head);
  write_key_gradients<S>(t, tile, head);
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
    score_gradients(t, s, 0, 0, tile.family, head, nullptr);
    query_gradients(t, t.grad_score, s.stride, 0, own.count, 0, keys, j > 0);
  }
  t.template read_keys<S>(own, head);
  for (int64_t i = 0; i < tile.family_size; i += kBlock) {
    const int64_t queries = std::min(kBlock, tile.family_size - i);
    t.template read_queries<S>({own.mixed, begin + i, queries}, head);
    read_context_gradients<S>(t, {own.mixed, begin + i, queries}, head);
    const Scores<C> s = t.scores(own.mixed, 0, own.count, 0, queries, place, i, own.first);
    const C* weight = score_gradients(t, s, 0, 0, tile.family, head, nullptr);
    key_gradients(t, t.grad_score, weight, s.stride, 0, queries, 0, own.count, i > 0);
  }
  write_query_gradients<S>(t, own, head);
  write_key_gradients<S>(t, own, head);
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
    for (int64_t head = 0; head < c.heads; ++head) {
      if (focused)
        focused_queries_backward<S>(t, tile, head);
      else if (tile.piece())
        piece_backward<S>(t, tile, head);
      else
        whole_families_backward<S>(t, tile.slots, head);
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

// The working set of a tile: rows of some members, packed for one head at a time.
//
// Scores lie with keys as rows and queries in the lanes of vectors: maxima, sums and
// exponentials over keys are then plain loops, and no vector is ever summed across.
#pragma once

#include <algorithm>
#include <vector>

#include "parallel.h"
#include "product.h"
#include "rows.h"
#include "transpose.h"

namespace hsa {

// Members of a block of queries or keys: slots.TILE_SLOTS.
constexpr int64_t kBlock = 64;

// Some consecutive slots of one kind of family.
struct Slots {
  bool mixed;
  int64_t first, count;
};

// What a tile is: whole families, or a piece of one that exceeds a block.
struct TileInfo {
  Slots slots;
  int64_t family;        // of the first slot
  int64_t family_size;   // of that family
  bool piece() const { return family_size > kBlock; }
};

inline TileInfo tile_info(const Call& c, int64_t tile) {
  const int64_t first = c.tile_start[tile];
  const int64_t family = c.slot_family[first];
  const bool mixed = first >= c.kind_sizes[1];
  return {{mixed, first, c.tile_start[tile + 1] - first}, family, c.family_size[family]};
}

// The slots at ``at`` of a tile that share one block of scores: as many families as fit
// into the lanes of a vector, for those that are small; else one family.
inline Slots block_at(const Call& c, Slots tile, int64_t at, int64_t lanes) {
  const auto size_at = [&](int64_t x) {
    return c.family_size[c.slot_family[tile.first + x]];
  };
  int64_t size = size_at(at);
  // Dropout and focus look at places within one family.
  while (c.dropout == 0 && c.top_k == 0 && at + size < tile.count &&
         size + size_at(at + size) <= lanes)
    size += size_at(at + size);
  return {tile.mixed, tile.first + at, size};
}

// Calls work(first, size, family) for the families of a block, ``first`` counted in it.
template <class F>
void for_families(const Call& c, Slots block, F&& work) {
  for (int64_t at = 0; at < block.count;) {
    const int64_t family = c.slot_family[block.first + at];
    work(at, c.family_size[family], family);
    at += c.family_size[family];
  }
}

// Scores of some keys (rows) and queries (lanes) of one family.
template <class C>
struct Scores {
  C* at;
  int64_t keys, queries, stride;
  int64_t first_key, first_query;  // places within the family
  int64_t key_slot;                // slot of the first key
};

template <class C>
class Tile {
 public:
  // all: numbers for the scores of a piece's queries with a whole family.
  Tile(const Call& c, bool backward, int64_t all = 0)
      : call(c),
        scored(c.channels + c.position_channels),
        scored_row(padded<C>(scored)),
        value_row(padded<C>(c.width)),
        lane_row(kBlock + kLanes<C>) {
    Arena& a = arena();
    const int64_t pairs = kBlock * kBlock, lane = kBlock + kLanes<C>;
    const int64_t rows = kBlock * (5 * scored_row + 5 * value_row) +
                         lane_row * (scored + c.width);
    a.reset<C>(rows + 3 * pairs + 8 * lane + 2 * scored_row + value_row + all + 32 * 16);
    q = a.take<C>(kBlock * scored_row);
    k = a.take<C>(kBlock * scored_row);
    v = a.take<C>(kBlock * value_row);
    across_q = a.take<C>(lane_row * scored);
    out = a.take<C>(kBlock * value_row);
    score = a.take<C>(pairs);
    top = a.take<C>(lane);
    sum = a.take<C>(lane);
    mass = a.take<C>(lane);
    factor = a.take<C>(lane);
    total = a.take<C>(2 * scored_row + value_row);
    all_scores = a.take<C>(all);
    if (backward || c.dropout > 0) dropped = a.take<C>(pairs);
    if (!backward) return;
    grad = a.take<C>(kBlock * value_row);
    across_grad = a.take<C>(lane_row * c.width);
    grad_score = a.take<C>(pairs);
    offset = a.take<C>(lane);
    grad_q = a.take<C>(kBlock * scored_row);
    grad_k = a.take<C>(kBlock * scored_row);
    grad_v = a.take<C>(kBlock * value_row);
  }

  const Call& call;
  const int64_t scored;  // channels that scores are made of: D, then P
  const int64_t scored_row, value_row, lane_row;
  C *q, *k, *v, *across_q, *out, *score, *top, *sum, *mass, *factor, *total, *all_scores;
  C *grad, *across_grad, *grad_score, *dropped, *offset, *grad_q, *grad_k, *grad_v;

  // Queries or keys with their positions behind them.
  template <class S>
  void read_scored(Slots s, Part part, int64_t head, C* rows) const {
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t member = call.slot_member[s.first + i];
      C* row = rows + i * scored_row;
      read_member<S>(call, s.mixed, part, member, head, row);
      if (call.position != nullptr)
        copy_in(row + call.channels,
                position_row<C>(call, member_node(call, s.mixed, member), head),
                call.position_channels);
    }
  }

  template <class S>
  void read_queries(Slots s, int64_t head) {
    read_scored<S>(s, kQuery, head, q);
    transpose(q, scored_row, s.count, scored, across_q, lane_row);
  }

  template <class S>
  void read_keys(Slots s, int64_t head) {
    read_scored<S>(s, kKey, head, k);
    for (int64_t i = 0; i < s.count; ++i)
      read_member<S>(call, s.mixed, kValue, call.slot_member[s.first + i], head,
                     v + i * value_row);
  }

  // s(B, C) + log n_C. Keys and queries are given by their rows in the packed blocks;
  // a query that is a key itself is struck out unless it has its own column.
  Scores<C> scores(bool mixed, int64_t key_row, int64_t keys, int64_t query_row,
                   int64_t queries, int64_t first_key, int64_t first_query,
                   int64_t key_slot, C* at = nullptr) const {
    const Scores<C> s{at == nullptr ? score : at,
                         keys,        queries, padded<C>(queries),
                      first_key, first_query, key_slot};
    // Scaled afterwards, so that scores of equal products are equal.
    product(keys, queries, call.channels, k + key_row * scored_row, scored_row,
            int64_t(1), across_q + query_row, lane_row, s.at, s.stride);
    for (int64_t x = 0; x < keys * s.stride; x += kLanes<C>)
      store(s.at + x, load(s.at + x) * C(call.scale));
    if (call.position != nullptr)
      product(keys, queries, call.position_channels,
              k + key_row * scored_row + call.channels, scored_row, int64_t(1),
              across_q + call.channels * lane_row + query_row, lane_row, s.at, s.stride,
              true);
    for (int64_t j = 0; mixed && j < keys; ++j) {
      const C bias = C(call.entity_log_count[call.slot_member[key_slot + j]]);
      for (C* x = s.at + j * s.stride; x < s.at + (j + 1) * s.stride; x += kLanes<C>)
        store(x, load(x) + bias);
    }
    if (mixed || !call.self_attention) fill_diagonal(s, -kInfinity<C>);
    return s;
  }

  // ``value`` where key and query are of different families of a block.
  void fill_between_families(Slots block, const Scores<C>& s, C* at, C value) const {
    if (block.count == call.family_size[call.slot_family[block.first]]) return;
    Vec<C> lane;
    for (int i = 0; i < kLanes<C>; ++i) lane[i] = C(i);
    for_families(call, block, [&](int64_t first, int64_t size, int64_t) {
      const Mask<C> own = (lane >= C(first)) & (lane < C(first + size));
      for (int64_t j = first; j < first + size; ++j) {
        C* p = at + j * s.stride;
        store(p, own ? load(p) : splat(value));
      }
    });
  }

  static void fill_diagonal(const Scores<C>& s, C value) {
    for (int64_t j = 0; j < s.keys; ++j) {
      const int64_t i = s.first_key + j - s.first_query;
      if (i >= 0 && i < s.queries) s.at[j * s.stride + i] = value;
    }
  }
};

// s(i, i) of a leaf row, summed in the order of the scores that it competes with.
template <class S, class C>
inline C self_score(const Call& c, int64_t leaf, int64_t head) {
  if (!c.self_attention) return -kInfinity<C>;
  const S* q = static_cast<const S*>(c.q.data) + leaf * c.q.row + head * c.q.head;
  const S* k = static_cast<const S*>(c.k.data) + leaf * c.k.row + head * c.k.head;
  C score = 0;
  for (int64_t i = 0; i < c.channels; ++i) score += C(widen(k[i])) * C(widen(q[i]));
  score *= C(c.scale);
  if (c.position == nullptr) return score;
  const C* eps = position_row<C>(c, c.leaf_node[leaf], head);
  for (int64_t i = 0; i < c.position_channels; ++i) score += eps[i] * eps[i];
  return score;
}

}  // namespace hsa

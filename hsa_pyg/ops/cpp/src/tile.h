// The working set of a tile: packed rows of some members, and what one head needs.
//
// Scores lie with keys as rows and queries in the lanes of vectors: maxima, sums and
// exponentials over keys are then plain loops, and no vector is ever summed across.
#pragma once

#include "parallel.h"
#include "product.h"
#include "rows.h"
#include "slots.h"
#include "transpose.h"

namespace hsa {

// Rows of all heads of a strip, head by head, and those of the head in work.
template <class C>
struct Packed {
  C *all = nullptr, *at = nullptr;
  int64_t row = 0;  // numbers from row to row

  C* operator[](int64_t i) const { return at + i * row; }
  C* of(const Strip& s, int64_t head, int64_t i) const {
    return all + ((head - s.head) * s.rows() + i) * row;
  }
  void select(const Strip& s, int64_t head) { at = of(s, head, 0); }
};

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
        lane_row(kBlock + kLanes<C>),
        per(backward ? 4 * padded<C>(scored) + 3 * padded<C>(c.width)
                     : 2 * padded<C>(scored) + 2 * padded<C>(c.width)) {
    Arena& a = arena();
    const int64_t pairs = kBlock * kBlock, rows = std::max(kBlock, kStrip / per);
    // Whole vectors are read: up to the last lanes of a last block.
    const int64_t held = rows + kLanes<C>;
    a.reset<C>(held * per + lane_row * (scored + c.width + 8) + 3 * pairs + all +
               2 * padded<C>(scored) + padded<C>(c.width) + 32 * 16);
    const auto packed = [&](int64_t channels) {
      C* const p = a.take<C>(held * padded<C>(channels));
      return Packed<C>{p, p, padded<C>(channels)};
    };
    q = packed(scored);
    k = packed(scored);
    v = packed(c.width);
    across_q = a.take<C>(lane_row * scored);
    score = a.take<C>(pairs);
    for (C** lanes : {&top, &sum, &mass, &factor, &offset})
      *lanes = a.take<C>(lane_row);
    total = a.take<C>(2 * padded<C>(scored) + padded<C>(c.width));
    all_scores = a.take<C>(all);
    dropped = a.take<C>(pairs);
    if (!backward) {
      out = packed(c.width);
      return;
    }
    grad = packed(c.width);
    across_grad = a.take<C>(lane_row * c.width);
    grad_score = a.take<C>(pairs);
    grad_q = packed(scored);
    grad_k = packed(scored);
    grad_v = packed(c.width);
  }

  const Call& call;
  const int64_t scored;  // channels that scores are made of: D, then P
  const int64_t lane_row, per;
  Packed<C> q, k, v, out, grad, grad_q, grad_k, grad_v;
  C *across_q, *across_grad, *score, *grad_score, *dropped, *all_scores;
  C *top, *sum, *mass, *factor, *offset, *total;

  // Makes a head of a strip the one in work.
  void select(const Strip& s, int64_t head) {
    for (Packed<C>* x : {&q, &k, &v, &out, &grad, &grad_q, &grad_k, &grad_v})
      if (x->all != nullptr) x->select(s, head);
  }

  // Queries or keys with their positions behind them.
  template <class S>
  void read_scored(const Strip& s, Part part, const Packed<C>& to) const {
    for (int64_t i = 0; i < s.rows(); ++i) {
      const int64_t member = call.slot_member[s.slots.first + i];
      for (int64_t head = s.head; head < s.head + s.heads; ++head) {
        C* row = to.of(s, head, i);
        read_member<S>(call, s.slots.mixed, part, member, head, row);
        if (call.position == nullptr) continue;
        const int64_t node = member_node(call, s.slots.mixed, member);
        copy_in(row + call.channels, position_row<C>(call, node, head),
                call.position_channels);
      }
    }
  }

  template <class S>
  void read_queries(const Strip& s) const {
    read_scored<S>(s, kQuery, q);
  }

  template <class S>
  void read_keys(const Strip& s) const {
    read_scored<S>(s, kKey, k);
    for (int64_t i = 0; i < s.rows(); ++i)
      for (int64_t head = s.head; head < s.head + s.heads; ++head)
        read_member<S>(call, s.slots.mixed, kValue, call.slot_member[s.slots.first + i],
                       head, v.of(s, head, i));
  }

  // Queries of the head in work into lanes: call after select.
  void lay_queries_across(int64_t count) const {
    transpose(q.at, q.row, count, scored, across_q, lane_row);
  }

  // s(B, C) + log n_C. Keys and queries are given by their rows in the packed blocks;
  // a query that is a key itself is struck out unless it has its own column.
  Scores<C> scores(bool mixed, int64_t key_row, int64_t keys, int64_t query_row,
                   int64_t queries, int64_t first_key, int64_t first_query,
                   int64_t key_slot, C* at = nullptr) const {
    const Scores<C> s{at == nullptr ? score : at,
                      keys,
                      queries,
                      padded<C>(queries),
                      first_key,
                      first_query,
                      key_slot};
    // Scaled afterwards, so that scores of equal products are equal.
    product(keys, queries, call.channels, k[key_row], k.row, int64_t(1),
            across_q + query_row, lane_row, s.at, s.stride);
    for (int64_t x = 0; x < keys * s.stride; x += kLanes<C>)
      store(s.at + x, load(s.at + x) * C(call.scale));
    if (call.position != nullptr)
      product(keys, queries, call.position_channels, k[key_row] + call.channels, k.row,
              int64_t(1), across_q + call.channels * lane_row + query_row, lane_row,
              s.at, s.stride, true);
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

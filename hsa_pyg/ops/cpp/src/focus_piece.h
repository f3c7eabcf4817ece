// Large families with focus: all scores of a piece of their queries are computed, and
// the few that are kept are then followed one by one.
#pragma once

#include "family_parts.h"
#include "focus.h"
#include "gradients.h"

namespace hsa {

// Whether a tile is such a piece.
inline bool is_focused(const Call& c, const TileInfo& tile) {
  return tile.piece() && !keeps_all(c, tile.family_size);
}

// A head of some member's key (with its position) and value, read when first needed.
template <class S, class C>
class LazyMember {
 public:
  LazyMember(Tile<C>& t, bool mixed, int64_t head)
      : t_(t), mixed_(mixed), head_(head) {}
  void set(int64_t slot) {
    slot_ = slot;
    has_key_ = has_value_ = false;
  }
  const C* key() {
    if (!has_key_)
      t_.template read_scored<S>({{mixed_, slot_, 1}, head_, 1}, kKey, t_.k);
    has_key_ = true;
    return t_.k.at;
  }
  const C* value() {
    if (!has_value_)
      read_member<S>(t_.call, mixed_, kValue, t_.call.slot_member[slot_], head_,
                     t_.v.at);
    has_value_ = true;
    return t_.v.at;
  }

 private:
  Tile<C>& t_;
  const bool mixed_;
  const int64_t head_;
  int64_t slot_ = 0;
  bool has_key_ = false, has_value_ = false;
};

// Calls each(key, lane, scores, factors) for every key and run of lanes where a score
// is left; the factors are dropout's.
template <class C, class F>
void for_kept(const Tile<C>& t, const Scores<C>& s, int64_t family, int64_t head,
              F&& each) {
  const Call& c = t.call;
  for (int64_t j = 0; j < s.keys; ++j) {
    bool drawn = c.dropout == 0;
    for (int64_t lane = 0; lane < s.stride; lane += kLanes<C>) {
      const Vec<C> x = load(s.at + j * s.stride + lane);
      if (!any<C>(x != -kInfinity<C>)) continue;
      if (!drawn) {
        Scores<C> row = s;
        row.keys = 1;
        row.first_key += j;
        dropout_factors(c, row, family, head, t.dropped);
        drawn = true;
      }
      each(j, lane, x, c.dropout == 0 ? splat(C(1)) : load(t.dropped + lane));
    }
  }
}

// All scores of a piece's queries, those that are not kept struck out.
template <class S, class C>
Scores<C> focused_scores(Tile<C>& t, const TileInfo& tile, int64_t head, C* gain,
                         C* threshold, int64_t* last_tie) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  const int64_t begin = c.family_first[tile.family];
  const Strip strip{own, head, 1};
  t.template read_queries<S>(strip);
  t.select(strip, head);
  t.lay_queries_across(own.count);
  Scores<C> all{t.all_scores,
                tile.family_size,
                own.count,
                padded<C>(own.count),
                0,
                own.first - begin,
                begin};
  for (int64_t j = 0; j < tile.family_size; j += kBlock) {
    const Slots keys{own.mixed, begin + j, std::min(kBlock, tile.family_size - j)};
    t.template read_scored<S>({keys, head, 1}, kKey, t.k);
    t.scores(own.mixed, 0, keys.count, 0, own.count, j, all.first_query, keys.first,
             all.at + j * all.stride);
  }
  focus_scores<S>(c, all, own.mixed, own.first, head, gain, threshold, last_tie);
  return all;
}

template <class S, class C>
void attend_focused_piece(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  C* const gain = own.mixed ? static_cast<C*>(c.gain) : nullptr;
  const Scores<C> s =
      focused_scores<S>(t, tile, head, gain, static_cast<C*>(nullptr), nullptr);
  for (int64_t lane = 0; lane < s.stride; lane += kLanes<C>) {
    Vec<C> top = splat(-kInfinity<C>);
    for (int64_t j = 0; j < s.keys; ++j)
      top = vmax<C>(top, load(s.at + j * s.stride + lane));
    store(t.top + lane, top);
    store(t.sum + lane, Vec<C>{});
  }
  std::fill(t.out[0], t.out[own.count], C(0));
  LazyMember<S, C> member(t, own.mixed, head);
  int64_t last = -1;
  for_kept(t, s, tile.family, head,
           [&](int64_t j, int64_t lane, Vec<C> x, Vec<C> kept) {
             if (j != last) member.set(s.key_slot + j);
             last = j;
             Vec<C> weight = vexp(x - load(t.top + lane));
             store(t.sum + lane, load(t.sum + lane) + weight);
             weight *= kept;
             for (int i = 0; i < kLanes<C> && lane + i < own.count; ++i)
               if (weight[i] != C(0))
                 add_row(t.out[lane + i], member.value(), c.width, C(weight[i]));
           });
  finish_softmax(t, own.count);
  scale_rows(t.out, own.count, t.factor);
  write_masses(t, own, head);
  write_contexts(t, {own, head, 1});
}

// The piece's queries against all keys. Notes what they keep.
template <class S, class C>
void focused_queries_backward(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  int64_t last_tie[kBlock];
  const Scores<C> s =
      focused_scores<S>(t, tile, head, static_cast<C*>(nullptr), t.top, last_tie);
  for (int64_t i = 0; i < own.count; ++i) {
    const int64_t at = c.slot_member[own.first + i] * c.heads + head;
    static_cast<C*>(c.threshold)[at] = t.top[i];
    c.last_tie[at] = last_tie[i];
  }
  read_gradients<S>(t, {own, head, 1});
  weigh_gradients(t, own, head);
  std::fill(t.grad_q[0], t.grad_q[own.count], C(0));
  LazyMember<S, C> member(t, own.mixed, head);
  int64_t last = -1;
  for_kept(t, s, tile.family, head,
           [&](int64_t j, int64_t lane, Vec<C> x, Vec<C> kept) {
             if (j != last) member.set(s.key_slot + j);
             last = j;
             const Vec<C> weight = vexp(x - load(t.mass + lane));
             for (int i = 0; i < kLanes<C> && lane + i < own.count; ++i) {
               if (weight[i] == C(0)) continue;
               const C worth = dot(t.grad[lane + i], member.value(), c.width);
               const C grad = weight[i] * (kept[i] * worth + t.offset[lane + i]);
               add_row(t.grad_q[lane + i], member.key(), t.scored, grad);
             }
           });
  write_query_gradients<S>(t, {own, head, 1});
}

// Scores of a block of queries, less what they did not keep.
template <class C>
void strike_out_again(const Call& c, const Scores<C>& s, Slots queries, int64_t head) {
  const int64_t shift = s.first_query - s.first_key;
  const int64_t from = std::max<int64_t>(0, shift);
  const int64_t to = std::min(s.keys, shift + s.queries);
  const bool beside = kept_beside(c, queries.mixed);
  C own[kBlock], threshold[kBlock];
  Mask<C> last_tie[kBlock / kLanes<C>] = {};
  std::fill(threshold, threshold + kBlock, C(0));
  for (int64_t j = from; beside && j < to; ++j) own[j] = s.at[j * s.stride + j - shift];
  for (int64_t i = 0; i < s.queries; ++i) {
    const int64_t at = c.slot_member[queries.first + i] * c.heads + head;
    threshold[i] = static_cast<const C*>(c.threshold)[at];
    last_tie[i / kLanes<C>][i % kLanes<C>] =
        typename LaneTypes<C>::word(c.last_tie[at]);
  }
  for (int64_t lane = 0; lane < s.stride; lane += kLanes<C>)
    strike_out(s, lane, Kept<C>{load(threshold + lane), last_tie[lane / kLanes<C>]});
  for (int64_t j = from; beside && j < to; ++j) s.at[j * s.stride + j - shift] = own[j];
}

// The piece's keys against all queries.
template <class S, class C>
void focused_keys_backward(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  const int64_t begin = c.family_first[tile.family];
  const Strip strip{own, head, 1};
  t.template read_keys<S>(strip);
  t.select(strip, head);
  std::fill(t.grad_k[0], t.grad_k[own.count], C(0));
  std::fill(t.grad_v[0], t.grad_v[own.count], C(0));
  for (int64_t first = 0; first < tile.family_size; first += kBlock) {
    const int64_t count = std::min(kBlock, tile.family_size - first);
    const Slots queries{own.mixed, begin + first, count};
    t.template read_queries<S>({queries, head, 1});
    t.lay_queries_across(count);
    read_gradients<S>(t, {queries, head, 1});
    weigh_gradients(t, queries, head);
    const Scores<C> s = t.scores(own.mixed, 0, own.count, 0, count, own.first - begin,
                                 first, own.first);
    strike_out_again(c, s, queries, head);
    for_kept(t, s, tile.family, head,
             [&](int64_t j, int64_t lane, Vec<C> x, Vec<C> kept) {
               const Vec<C> weight = vexp(x - load(t.mass + lane));
               for (int i = 0; i < kLanes<C> && lane + i < count; ++i) {
                 if (weight[i] == C(0)) continue;
                 const C* grad = t.grad[lane + i];
                 const C worth = dot(grad, t.v[j], c.width);
                 const C pull = weight[i] * (kept[i] * worth + t.offset[lane + i]);
                 add_row(t.grad_k[j], t.q[lane + i], t.scored, pull);
                 add_row(t.grad_v[j], grad, c.width, C(weight[i] * kept[i]));
               }
             });
  }
  write_key_gradients<S>(t, strip);
  write_value_gradients<S>(t, strip);
}

}  // namespace hsa

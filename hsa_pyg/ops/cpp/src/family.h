// Softmax attention inside families, tile by tile: steps 1 and 2 for leaf-only
// families, step 2 for mixed ones.
#pragma once

#include "focus_piece.h"

namespace hsa {

template <class S, class C>
void attend_whole_families(Tile<C>& t, const Strip& strip, int64_t head) {
  const Call& c = t.call;
  const Slots all = strip.slots;
  t.select(strip, head);
  t.lay_queries_across(all.count);
  for (int64_t at = 0; at < all.count;) {
    const Slots own = block_at(c, all, at, kLanes<C>);
    const int64_t size = own.count;
    const Scores<C> s = t.scores(all.mixed, at, size, at, size, 0, 0, own.first);
    t.fill_between_families(own, s, s.at, -kInfinity<C>);
    focus_scores<S>(c, s, all.mixed, own.first, head,
                    all.mixed ? static_cast<C*>(c.gain) : nullptr,
                    static_cast<C*>(nullptr), nullptr);
    softmax_block(t, s, true);
    finish_softmax(t, size);
    weigh_block(t, own, s, head, at);
    write_masses(t, own, head);
    if (!all.mixed)
      for_families(c, own, [&](int64_t first, int64_t count, int64_t family) {
        write_means(t, family, at + first, first, count, head);
      });
    at += size;
  }
}

template <class S, class C>
void attend_strip(Tile<C>& t, const Strip& strip) {
  t.template read_queries<S>(strip);
  t.template read_keys<S>(strip);
  for (int64_t head = strip.head; head < strip.head + strip.heads; ++head)
    attend_whole_families<S>(t, strip, head);
  write_contexts(t, strip);
}

// A piece of the queries of a large family against all of its keys, block by block.
template <class S, class C>
void attend_piece(Tile<C>& t, const TileInfo& tile, int64_t head) {
  const Call& c = t.call;
  const Slots own = tile.slots;
  const Strip strip{own, head, 1};
  const int64_t begin = c.family_first[tile.family];
  t.template read_queries<S>(strip);
  t.select(strip, head);
  t.lay_queries_across(own.count);
  for (int64_t j = 0; j < tile.family_size; j += kBlock) {
    const int64_t keys = std::min(kBlock, tile.family_size - j);
    t.template read_keys<S>({{own.mixed, begin + j, keys}, head, 1});
    const Scores<C> s =
        t.scores(own.mixed, 0, keys, 0, own.count, j, own.first - begin, begin + j);
    softmax_block(t, s, j == 0);
    if (j > 0) scale_rows(t.out, own.count, t.factor);
    drop_weights(t, s, tile.family, head);
    product(own.count, c.width, keys, s.at, int64_t(1), s.stride, t.v.at, t.v.row,
            t.out.at, t.out.row, j > 0);
  }
  finish_softmax(t, own.count);
  scale_rows(t.out, own.count, t.factor);
  write_masses(t, own, head);
  write_contexts(t, strip);
}

// Means and -phi of a leaf-only family that exceeds a tile.
template <class S, class C>
void reduce_large_family(const Call& c, int64_t family, int64_t head) {
  const int64_t size = c.family_size[family], joined = joined_size(c);
  Arena& a = arena();
  a.reset<C>(2 * joined + 32);
  C* const row = a.take<C>(joined);
  C* const total = a.take<C>(joined);
  std::fill(total, total + joined, C(0));
  C mass = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t leaf = c.slot_member[c.family_first[family] + i];
    for (int part = 0; part < 3; ++part)
      read_member<S>(c, false, Part(part), leaf, head, row + part * c.channels);
    add_row(total, row, joined);
    mass += static_cast<const C*>(c.leaf_mass)[leaf * c.heads + head];
  }
  const C share = C(1) / C(size);
  C* mean = static_cast<C*>(c.mean) + (family * c.heads + head) * joined;
  for (int64_t x = 0; x < joined; ++x) mean[x] = total[x] * share;
  static_cast<C*>(c.gain)[family * c.heads + head] = mass * share;
}

inline std::vector<int64_t> large_leaf_only_families(const Call& c) {
  std::vector<int64_t> large;
  for (int64_t i = 0; i < c.kind_sizes[0]; ++i)
    if (c.family_size[c.family_order[i]] > kBlock) large.push_back(c.family_order[i]);
  return large;
}

// Numbers that a tile reads.
inline int64_t tile_cost(const Call& c) { return kBlock * c.heads * joined_size(c); }

template <class S, class C>
void attend_families(const Call& c, bool mixed) {
  const int64_t leaf_tiles = c.kind_sizes[2];
  const int64_t first = mixed ? leaf_tiles : 0;
  const int64_t tiles = mixed ? c.kind_sizes[5] : leaf_tiles;
  parallel_for(c.threads, tiles, tile_cost(c), [&](int64_t i) {
    const TileInfo tile = tile_info(c, first + i);
    const bool focused = is_focused(c, tile);
    Tile<C> t(c, false, focused ? tile.family_size * kBlock : 0);
    if (!tile.piece())
      return for_strips(c, tile.slots, t.per,
                        [&](const Strip& strip) { attend_strip<S>(t, strip); });
    for (int64_t head = 0; head < c.heads; ++head) {
      if (focused)
        attend_focused_piece<S>(t, tile, head);
      else
        attend_piece<S>(t, tile, head);
    }
  });
  if (mixed) return;
  const std::vector<int64_t> large = large_leaf_only_families(c);
  parallel_for(c.threads, int64_t(large.size()) * c.heads, kBlock * joined_size(c),
               [&](int64_t i) {
                 reduce_large_family<S, C>(c, large[i / c.heads], i % c.heads);
               });
}

}  // namespace hsa

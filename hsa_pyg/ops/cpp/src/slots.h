// How slots are cut: tiles, strips of their rows, blocks of scores.
#pragma once

#include <algorithm>
#include <vector>

#include "call.h"

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
  int64_t family;       // of the first slot
  int64_t family_size;  // of that family
  bool piece() const { return family_size > kBlock; }
};

inline TileInfo tile_info(const Call& c, int64_t tile) {
  const int64_t first = c.tile_start[tile];
  const int64_t family = c.slot_family[first];
  const bool mixed = first >= c.kind_sizes[1];
  return {
      {mixed, first, c.tile_start[tile + 1] - first}, family, c.family_size[family]};
}

// Some slots and a run of heads: what is read, worked on and written together. Rows are
// passed in the order of memory, which is twice as fast as head by head.
struct Strip {
  Slots slots;
  int64_t head, heads;
  int64_t rows() const { return slots.count; }
};

// Numbers of a strip's working set; the caches next to a core hold 512 KiB and more.
constexpr int64_t kStrip = 1 << 17;

// The families at ``at`` of a tile that fit into a strip of all heads, at least one,
// and as many heads as fit then.
//   per: numbers per row and head.
inline Strip strip_at(const Call& c, Slots tile, int64_t at, int64_t per) {
  const auto size_at = [&](int64_t x) {
    return c.family_size[c.slot_family[tile.first + x]];
  };
  int64_t rows = size_at(at);
  while (at + rows < tile.count &&
         (rows + size_at(at + rows)) * c.heads * per <= kStrip)
    rows += size_at(at + rows);
  const int64_t heads = std::min(c.heads, std::max<int64_t>(1, kStrip / (rows * per)));
  return {{tile.mixed, tile.first + at, rows}, 0, heads};
}

// Calls work(strip) for all families and heads of a tile of whole families.
template <class F>
void for_strips(const Call& c, Slots tile, int64_t per, F&& work) {
  for (int64_t at = 0; at < tile.count;) {
    Strip strip = strip_at(c, tile, at, per);
    at += strip.rows();
    for (const int64_t heads = strip.heads; strip.head < c.heads; strip.head += heads) {
      strip.heads = std::min(heads, c.heads - strip.head);
      work(strip);
    }
  }
}

// The slots at ``at`` of a strip that share one block of scores: as many families as
// fit into the lanes of a vector, for those that are small; else one family.
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

}  // namespace hsa

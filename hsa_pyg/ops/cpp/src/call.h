// What Python hands over: sizes, the compiled forest and raw pointers.
//
// Legend: N leaf rows, F internal nodes (each owns one family), X leaves of mixed
// families, E = F + X entities, H heads, D and W channels of a query and of a value, P
// of a position. The fields are those of the ctypes structure in attention.py, in
// order; each takes eight bytes.
#pragma once

#include <cstdint>

namespace hsa {

// A tensor [rows, H, channels] with any strides, counted in elements.
struct Strided {
  const void* data;
  int64_t row, head, channel;
};

struct Call {
  int64_t threads, storage, leaves, families, entities, heads;
  int64_t channels, width, position_channels, position_heads;
  int64_t levels, roots_that_are_leaves, spare_rows;
  int64_t self_attention, top_k, includes_self, seed;
  double dropout, scale;

  // The compiled forest, see FamilyLayout.
  const int64_t *slot_member, *slot_family, *family_first, *family_size;
  const int64_t *family_order, *tile_start, *kind_sizes;
  const int64_t *internal_parent, *internal_count;
  const double* internal_share;
  const int64_t *mixed_leaf, *mixed_leaf_parent;
  const double *mixed_leaf_share, *entity_log_count;
  const int64_t *entity_node, *root_leaf, *level_ptr;
  const int64_t* leaf_node;

  Strided q, k, v, grad_y;
  const void* position;  // [M, 1 or H, P] in the compute type, or null

  // Storage type.
  void *y, *rest, *grad_q, *grad_k, *grad_v;
  // Compute type, contiguous; see passes.Saved.
  void *leaf_context, *mean, *leaf_mass, *context, *mass, *brought, *gain, *log_weight;
  // Gradients from outside, or null: of -phi of internal nodes [F, H] and of leaves'
  // scores with themselves [N, H].
  const void *outer_gain, *leaf_pull;
  // Compute type, for the backward pass alone.
  // [F or E, H, 2 D + W] of the means, and of mixed families' leaves if their gradients
  // are stored in another type.
  void* grad_entity;
  void* grad_context;     // [F, H, W]
  void* grad_log_weight;  // [E, H]
  void* worth;            // [E, H] <m, gradient of the context>
  void* grad_gain;        // [E, H] of -phi
  void* offset;           // [E, H] gradient of L, less <m, gradient of m>
  void* leaf_worth;       // [N, H] <grad_y, y - context of the parent>
  void* grad_eps;         // [E, 1 or H, P] of members of mixed families
  void* grad_leaf_eps;    // [N, 1 or H, P]
  void* threshold;        // [max(N, E), H] of what queries of large families keep
  int64_t* last_tie;      // [max(N, E), H]
};

}  // namespace hsa

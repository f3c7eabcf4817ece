// The forward pass: contexts of all leaves, and what the backward pass needs.
#include "entry.h"
#include "family.h"
#include "tree.h"

namespace hsa {

template <class S>
struct Forward {
  using C = Compute<S>;
  static void run(const Call& c) {
    const int64_t row = c.heads * int64_t(sizeof(C)), joined = joined_size(c);
    expect_writes(c.y, c.leaves * c.heads * c.width * int64_t(sizeof(S)));
    expect_writes(c.leaf_context, c.leaves * c.width * row);
    expect_writes(c.mean, c.families * joined * row);
    expect_writes(c.context, c.families * c.width * row);
    expect_writes(c.brought, c.entities * c.width * row);
    clear_the_rest<C>(c);
    attend_families<S, C>(c, false);
    means_upward<S, C>(c);
    leaf_energies<S, C>(c);
    attend_families<S, C>(c, true);
    energies_upward<C>(c);
    contexts_downward<C>(c);
    write_leaf_only<S, C>(c);
    write_mixed_leaves<S, C>(c);
    write_root_leaves<S, C>(c);
  }
};

}  // namespace hsa

extern "C" int64_t hsa_call_size() { return int64_t(sizeof(hsa::Call)); }

extern "C" void hsa_forward(const hsa::Call* call) { hsa::run<hsa::Forward>(*call); }

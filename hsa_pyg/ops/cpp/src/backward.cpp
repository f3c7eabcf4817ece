// The backward pass: gradients of q, k, v and positions.
#include "entry.h"
#include "family_backward.h"
#include "tree_backward.h"

namespace hsa {

template <class S>
struct Backward {
  using C = Compute<S>;
  static void run(const Call& c) {
    const int64_t row = c.heads * int64_t(sizeof(C)), joined = joined_size(c);
    const int64_t stored = c.leaves * c.heads * int64_t(sizeof(S));
    for (void* grad : {c.grad_q, c.grad_k}) expect_writes(grad, stored * c.channels);
    expect_writes(c.grad_v, stored * c.width);
    const int64_t gathered = std::is_same_v<S, C> ? c.families : c.entities;
    expect_writes(c.grad_entity, gathered * joined * row);
    expect_writes(c.grad_context, c.families * c.width * row);
    collect_leaf_only<S, C>(c);
    collect_mixed_leaves<S, C>(c);
    contexts_upward<S, C>(c);
    energies_downward<C>(c);
    families_backward<S, C>(c, true);
    mean_gradients_downward<C>(c);
    families_backward<S, C>(c, false);
    write_mixed_leaf_gradients<S, C>(c);
    write_root_leaf_gradients<S, C>(c);
  }
};

}  // namespace hsa

extern "C" void hsa_backward(const hsa::Call* call) { hsa::run<hsa::Backward>(*call); }

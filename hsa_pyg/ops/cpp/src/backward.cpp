// The backward pass: gradients of q, k, v and positions.
#include "entry.h"
#include "family_backward.h"
#include "tree_backward.h"

namespace hsa {

template <class S>
struct Backward {
  using C = Compute<S>;
  static void run(const Call& c) {
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

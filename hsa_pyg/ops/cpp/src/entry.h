// Which types a call is run for.
#pragma once

#include "call.h"
#include "rows.h"

namespace hsa {

enum Storage { kFloat32, kFloat64, kBFloat16, kFloat16 };

template <template <class> class Pass>
void run(const Call& c) {
  switch (c.storage) {
    case kFloat32:
      return Pass<float>::run(c);
    case kFloat64:
      return Pass<double>::run(c);
    case kBFloat16:
      return Pass<BFloat16>::run(c);
    case kFloat16:
      return Pass<Half>::run(c);
  }
}

}  // namespace hsa

// Loops over independent pieces of work, in several threads where that pays.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hsa {

// Numbers touched below which a loop is not worth a barrier.
constexpr int64_t kTiny = 1 << 14;

// Calls work(i) for every i below n. What work(i) writes nobody else reads or writes,
// so that neither the number of threads nor their pace changes a result.
//   cost: numbers that one i touches, about.
template <class F>
void parallel_for(int64_t threads, int64_t n, int64_t cost, F&& work) {
#if defined(_OPENMP)
  if (threads > 1 && n > 1 && n * cost > kTiny) {
    // Pieces small enough to even out, large enough to be worth fetching.
    const int64_t even = n / (threads * 8);
    const int64_t fair = kTiny / (4 * (cost + 1));
    const int64_t chunk = even < 1 ? 1 : fair < 1 ? 1 : even < fair ? even : fair;
#pragma omp parallel for schedule(dynamic, chunk) num_threads(int(threads))
    for (int64_t i = 0; i < n; ++i) work(i);
    return;
  }
#endif
  (void)threads;
  (void)cost;
  for (int64_t i = 0; i < n; ++i) work(i);
}

// Asks for large pages in memory that is about to be written for the first time: a page
// costs as much as the work on its numbers. Refusal costs nothing but time.
template <class T>
inline void expect_writes(T* data, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(data) + uintptr_t(bytes)) / page * page;
  if (data != nullptr && begin < end)
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)data;
  (void)bytes;
#endif
}

// Memory of one thread that lasts from call to call, for pieces of a working set.
class Arena {
 public:
  // Room for n numbers in all; forgets what was taken before.
  template <class C>
  void reset(int64_t n) {
    const size_t wanted = size_t(n) * sizeof(C) + kLine;
    if (wanted > size_) {
      // Zeros: lanes that pad a row are computed with, though never used.
      data_.reset(static_cast<char*>(std::calloc(wanted, 1)));
      if (!data_) throw std::bad_alloc();
      size_ = wanted;
    }
    const size_t at = reinterpret_cast<uintptr_t>(data_.get()) % kLine;
    used_ = at == 0 ? 0 : kLine - at;
  }

  template <class C>
  C* take(int64_t n) {
    C* p = reinterpret_cast<C*>(data_.get() + used_);
    used_ += (size_t(n) * sizeof(C) + kLine - 1) / kLine * kLine;
    return p;
  }

 private:
  static constexpr size_t kLine = 64;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0, used_ = 0;
};

inline Arena& arena() {
  static thread_local Arena mine;
  return mine;
}

}  // namespace hsa

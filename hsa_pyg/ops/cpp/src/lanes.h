// Vectors of as many lanes as the machine has, and the few functions on them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace hsa {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kAccumulators = 24;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kAccumulators = 12;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kAccumulators = 24;
#else
constexpr int kVectorBytes = 16;
constexpr int kAccumulators = 8;
#endif

template <class C>
struct LaneTypes {
  static constexpr int count = kVectorBytes / int(sizeof(C));
  using word = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  typedef C vec __attribute__((vector_size(kVectorBytes)));
  typedef C loose
      __attribute__((vector_size(kVectorBytes), aligned(sizeof(C)), may_alias));
  typedef word mask __attribute__((vector_size(kVectorBytes)));
};

typedef uint32_t Bits __attribute__((vector_size(kVectorBytes)));

template <class C>
using Vec = typename LaneTypes<C>::vec;
template <class C>
using Mask = typename LaneTypes<C>::mask;
template <class C>
constexpr int kLanes = LaneTypes<C>::count;

template <class C>
constexpr C kInfinity = std::numeric_limits<C>::infinity();

template <class C>
inline Vec<C> load(const C* p) {
  return *reinterpret_cast<const typename LaneTypes<C>::loose*>(p);
}

template <class C>
inline void store(C* p, Vec<C> x) {
  *reinterpret_cast<typename LaneTypes<C>::loose*>(p) = x;
}

template <class C>
inline Vec<C> splat(C x) {
  return x - Vec<C>{};
}

template <class C>
inline int64_t vectors(int64_t n) {
  return (n + kLanes<C> - 1) / kLanes<C>;
}

template <class C>
inline int64_t padded(int64_t n) {
  return vectors<C>(n) * kLanes<C>;
}

// exp of numbers up to 0, to about one unit in the last place; 0 below the normal
// numbers, also at -inf. What is no number stays none.
inline Vec<float> vexp(Vec<float> x) {
  const float magic =
      12582912.0f;  // 1.5 * 2^23: the sum's low bits hold round(x / ln 2)
  const Vec<float> t = x * 1.44269504088896341f + magic;
  const Vec<float> n = t - magic;
  const Vec<float> r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // Unsigned: lanes that are thrown away below may wrap round.
  const Bits scaled = (Bits)p + ((Bits)t << 23);
  const Vec<float> y = x <= -87.3f ? Vec<float>{} : (Vec<float>)scaled;
  return x == x ? y : x;
}

// log of normal numbers; -inf at 0. What is no number stays none.
inline Vec<float> vlog(Vec<float> x) {
  const Mask<float> bits = (Mask<float>)x;
  // The exponent of x / sqrt(1/2), so that what is left lies around 1.
  const Mask<float> e = (bits - 0x3f3504f3) >> 23;
  const Vec<float> m = (Vec<float>)(bits - (e << 23)) - 1.0f;
  const Vec<float> n = __builtin_convertvector(e, Vec<float>);
  const Vec<float> z = m * m;
  Vec<float> p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const Vec<float> y = (p * m * z + n * -2.12194440e-4f) - z * 0.5f;
  const Vec<float> result = (m + y) + n * 0.693359375f;
  const Vec<float> found = x == 0.0f ? splat(-kInfinity<float>) : result;
  return x == x ? found : x;
}

inline Vec<double> vexp(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

inline Vec<double> vlog(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::log(x[i]);
  return x;
}

template <class C>
inline Vec<C> vmax(Vec<C> a, Vec<C> b) {
  return a > b ? a : b;
}

template <class C>
inline Vec<C> vmin(Vec<C> a, Vec<C> b) {
  return a < b ? a : b;
}

}  // namespace hsa

/// The searches behind Quantize.h: a scale, or a scale and an offset, such that codes times the scale come close to a
/// block's values. Not for others.
///
/// All searches have one shape. For fixed codes the best scale is a least-squares fit; for a fixed scale the best codes
/// are the nearest ones. Going back and forth ends in a local optimum, so it is started from several places: scales
/// that give the value of largest magnitude different codes, from a little clipping to none.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace g4::quants {

// Four lanes at a time on every machine: sums are added in one order, so that results are the same everywhere.
using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));

inline F4 splat(float v) { return F4{v, v, v, v}; }
inline float sum(F4 v) { return (v[0] + v[1]) + (v[2] + v[3]); }

/// A block's values and their importance.
template <int N> struct Values {
  F4 x[N / 4], w[N / 4];
  float at(int i) const { return x[i / 4][i % 4]; }
};

template <int N> Values<N> load(const float *x, const float *w) {
  Values<N> v;
  for (int i = 0; i < N; ++i) {
    v.x[i / 4][i % 4] = x[i];
    v.w[i / 4][i % 4] = w ? w[i] : 1.0f;
  }
  return v;
}

/// Nearest to even, as the hardware converts; saturates at the largest finite value.
inline uint16_t toHalf(float v) {
  constexpr float kLargest = 65504;
  _Float16 h = static_cast<_Float16>(v > kLargest ? kLargest : v < -kLargest ? -kLargest : v);
  return std::bit_cast<uint16_t>(h);
}
/// Whether a normal f16 has this value.
inline bool fitsHalf(float v) {
  return (std::bit_cast<uint32_t>(v) & 0x1fff) == 0 && std::fabs(v) <= 65504 && std::fabs(v) >= 0x1p-14f;
}
inline float roundToHalf(float v) { return static_cast<float>(std::bit_cast<_Float16>(toHalf(v))); }

/// Codes are the integers lo..hi.
struct RangeCoder {
  float lo, hi;
  /// The code nearest to each lane. Adding and subtracting 1.5 * 2^23 rounds to an integer, ties to even.
  F4 operator()(F4 y) const {
    y = y < splat(lo) ? splat(lo) : y > splat(hi) ? splat(hi) : y;
    return (y + splat(0x1.8p23f)) - splat(0x1.8p23f);
  }
};

/// Codes are the 16 ascending values of a table.
struct TableCoder {
  float value[16];
  F4 operator()(F4 y) const {
    F4 code = splat(value[0]);
    for (int k = 1; k < 16; ++k)
      code = y > splat(0.5f * (value[k - 1] + value[k])) ? splat(value[k]) : code;
    return code;
  }
};

/// 1 / d, or 0 where d is 0 or too small to have an inverse: then all codes are the one nearest to 0.
inline float inverse(float d) {
  float inv = d != 0 ? 1 / d : 0;
  return std::isfinite(inv) ? inv : 0;
}

/// What a scale is worth: the weighted squared error, and the sums of which its refit is made.
struct ScaleSums {
  float error, xq, qq;
};

template <int N, class Coder> ScaleSums measure(const Values<N> &v, const Coder &coder, float d) {
  F4 error = {}, xq = {}, qq = {}, inv = splat(inverse(d)), scale = splat(d);
  for (int i = 0; i < N / 4; ++i) {
    F4 q = coder(v.x[i] * inv), wq = v.w[i] * q, e = v.x[i] - scale * q;
    xq += wq * v.x[i];
    qq += wq * q;
    error += v.w[i] * e * e;
  }
  return {sum(error), sum(xq), sum(qq)};
}

template <int N> float largest(const Values<N> &v) {
  float best = 0;
  for (int i = 0; i < N; ++i)
    if (std::fabs(v.at(i)) > std::fabs(best))
      best = v.at(i);
  return best;
}

inline bool all(I4 v) { return v[0] && v[1] && v[2] && v[3]; }

/// The scale d, rounded by `round`, for which code(x / d) * d comes closest to x. `starts` are codes for the value
/// of largest magnitude. `exact` is the largest integer code to try for blocks that are multiples of one scale; 0: none.
template <int N, class Coder, class Round>
float fitScale(const Values<N> &v, const Coder &coder, std::span<const float> starts, int exact, Round round) {
  float top = largest(v);
  if (top == 0)
    return 0;
  for (int c = 1; c <= exact; ++c) {
    float size = top / static_cast<float>(c);
    if (size * static_cast<float>(c) != top || !fitsHalf(size))
      continue;
    for (float d : {size, -size}) { // the range of codes may hold -c but not c
      int i = 0;
      while (i < N / 4 && all(coder(v.x[i] * splat(inverse(d))) * splat(d) == v.x[i]))
        ++i;
      if (i == N / 4)
        return d;
    }
  }
  // The start whose refit, to its own codes, leaves least: sum(w x x) - gain.
  float refit = 0, gain = 0;
  auto offer = [&](float xq, float qq) {
    if (qq > 0 && xq * xq > gain * qq) {
      refit = xq / qq;
      gain = xq * refit;
    }
  };
  for (float start : starts) {
    F4 xq = {}, qq = {}, inv = splat(start / top);
    for (int i = 0; i < N / 4; ++i) {
      F4 q = coder(v.x[i] * inv), wq = v.w[i] * q;
      xq += wq * v.x[i];
      qq += wq * q;
    }
    offer(sum(xq), sum(qq));
  }
  // From there back and forth, now with scales as they are stored.
  float best = 0, bestError = std::numeric_limits<float>::infinity();
  constexpr int kRefits = 4;
  for (int i = 0; i < kRefits; ++i) {
    float d = round(refit);
    ScaleSums s = measure(v, coder, d);
    if (!(s.error < bestError))
      break;
    best = d;
    bestError = s.error;
    offer(s.xq, s.qq);
  }
  return best;
}

/// x ~ d * q + m with codes q in 0..top.
struct Affine {
  float d = 0, m = 0, error = std::numeric_limits<float>::infinity();
};

/// The sums for refitting d and m to the nearest codes.
struct AffineSums {
  float error, w, x, q, xq, qq;
};

template <int N> AffineSums measure(const Values<N> &v, float top, float d, float m) {
  RangeCoder coder{0, top};
  F4 error = {}, w = {}, x = {}, q = {}, xq = {}, qq = {}, inv = splat(inverse(d)), scale = splat(d), offset = splat(m);
  for (int i = 0; i < N / 4; ++i) {
    F4 c = coder((v.x[i] - offset) * inv), wc = v.w[i] * c, e = v.x[i] - (scale * c + offset);
    w += v.w[i];
    x += v.w[i] * v.x[i];
    q += wc;
    xq += wc * v.x[i];
    qq += wc * c;
    error += v.w[i] * e * e;
  }
  return {sum(error), sum(w), sum(x), sum(q), sum(xq), sum(qq)};
}

/// The best pair for codes 0..top, each rounded by `round`. With `belowZero` the offset is at most 0, as in formats that
/// store it as a minimum to subtract.
template <int N, class Round> Affine fitAffine(const Values<N> &v, float top, bool belowZero, Round round) {
  float low = v.at(0), high = low;
  for (int i = 1; i < N; ++i) {
    low = std::fmin(low, v.at(i));
    high = std::fmax(high, v.at(i));
  }
  if (belowZero)
    low = std::fmin(low, 0.0f);
  // A block that is a multiple of one scale above its minimum is kept as it is.
  for (int c = 1; c <= static_cast<int>(top) && !belowZero && round(low) == low; ++c) {
    float d = (high - low) / static_cast<float>(c);
    if (d * static_cast<float>(c) != high - low || !fitsHalf(d))
      continue;
    int i = 0;
    F4 scale = splat(d), offset = splat(low), inv = splat(inverse(d));
    while (i < N / 4 && all(scale * RangeCoder{0, top}((v.x[i] - offset) * inv) + offset == v.x[i]))
      ++i;
    if (i == N / 4)
      return {d, low, 0};
  }
  Affine best;
  auto consider = [&](float d, float m) {
    d = round(d);
    m = round(m);
    AffineSums s = measure(v, top, d, m);
    if (s.error < best.error)
      best = {d, m, s.error};
    return s;
  };
  // The ends of the range of codes, in steps inside the ends of the values: the outermost are clipped for the good of the
  // others, or the range is left a little wider than it need be.
  constexpr float kInside[] = {-0.3f, 0.3f, 0.9f};
  constexpr int kRefits = 3;
  for (float insideLow : kInside)
    for (float insideHigh : kInside) {
      float m = low + insideLow * (high - low) / top, d = (high - low) * (1 - (insideLow + insideHigh) / top) / top;
      if (belowZero)
        m = std::fmin(m, 0.0f);
      for (int i = 0; i <= kRefits; ++i) {
        float before = best.error;
        AffineSums s = consider(d, m);
        if (i > 0 && !(best.error < before))
          break; // this start leads nowhere new
        float det = s.w * s.qq - s.q * s.q;
        if (!(det > 0))
          break; // all codes are the same
        d = (s.w * s.xq - s.x * s.q) / det;
        m = (s.qq * s.x - s.q * s.xq) / det;
        if (belowZero && m > 0) {
          m = 0;
          d = s.xq / s.qq;
        }
        if (!(d > 0))
          break;
      }
    }
  return best;
}

} // namespace g4::quants

// Blocks of 32 and plain floats. Written from the block layouts in ggml-common.h.
#include "compiler/quants/Quantize.h"

#include "compiler/quants/Fit.h"
#include "compiler/quants/QuantizeK.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace g4::quants {
namespace {

using Bytes = uint8_t *;

void put16(Bytes p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
}
void put32(Bytes p, uint32_t v) {
  put16(p, static_cast<uint16_t>(v));
  put16(p + 2, static_cast<uint16_t>(v >> 16));
}

// ---- floats --------------------------------------------------------------------------------------------------------

void f32(const float *x, const float *, Bytes out) { put32(out, std::bit_cast<uint32_t>(*x)); }
void f16(const float *x, const float *, Bytes out) { put16(out, toHalf(*x)); }
void bf16(const float *x, const float *, Bytes out) { // ties to even
  uint32_t bits = std::bit_cast<uint32_t>(*x);
  put16(out, static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

// ---- one scale -----------------------------------------------------------------------------------------------------

/// 32 codes, from 0 to 31, in the order that the 4- and 5-bit formats share: element j in the low half of byte j,
/// element 16 + j in its high half.
void putNibbles(const int *codes, Bytes out) {
  for (int j = 0; j < 16; ++j)
    out[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}
/// Bit j: the fifth bit of code j.
void putFifthBits(const int *codes, Bytes out) {
  uint32_t high = 0;
  for (int j = 0; j < 32; ++j)
    high |= static_cast<uint32_t>(codes[j] >> 4 & 1) << j;
  put32(out, high);
}

void codesOf(const Values<32> &v, RangeCoder coder, float d, float m, int zero, int *codes) {
  for (int i = 0; i < 8; ++i) {
    F4 q = coder((v.x[i] - splat(m)) * splat(inverse(d)));
    for (int lane = 0; lane < 4; ++lane)
      codes[4 * i + lane] = static_cast<int>(q[lane]) + zero;
  }
}

/// Starts for a range of codes -n .. n - 1: from half a step of no clipping at all to a quarter of the range clipped,
/// with the largest value on either side.
template <int Count> constexpr std::array<float, 2 * Count> startsAround(float n, float step) {
  std::array<float, 2 * Count> starts{};
  for (int i = 0; i < Count; ++i) {
    starts[2 * i] = -(n + 0.5f - static_cast<float>(i) * step);
    starts[2 * i + 1] = n - 0.5f - static_cast<float>(i) * step;
  }
  return starts;
}

void q4_0(const float *x, const float *w, Bytes out) {
  static constexpr auto kStarts = startsAround<14>(8, 0.25f);
  Values<32> v = load<32>(x, w);
  RangeCoder coder{-8, 7};
  float d = fitScale(v, coder, kStarts, 8, roundToHalf);
  int codes[32];
  codesOf(v, coder, d, 0, 8, codes);
  put16(out, toHalf(d));
  putNibbles(codes, out + 2);
}

void q5_0(const float *x, const float *w, Bytes out) {
  static constexpr auto kStarts = startsAround<14>(16, 0.3f);
  Values<32> v = load<32>(x, w);
  RangeCoder coder{-16, 15};
  float d = fitScale(v, coder, kStarts, 16, roundToHalf);
  int codes[32];
  codesOf(v, coder, d, 0, 16, codes);
  put16(out, toHalf(d));
  putFifthBits(codes, out + 2);
  putNibbles(codes, out + 6);
}

void q8_0(const float *x, const float *w, Bytes out) {
  // -128 is left out: kernels take the absolute value of a code as a byte.
  static constexpr float kStarts[] = {127.5f, 127, 126.5f, 126, 125.5f, 125, 124, 123, 122, 121, 120};
  Values<32> v = load<32>(x, w);
  RangeCoder coder{-127, 127};
  float d = fitScale(v, coder, kStarts, 127, roundToHalf);
  int codes[32];
  codesOf(v, coder, d, 0, 0, codes);
  put16(out, toHalf(d));
  for (int j = 0; j < 32; ++j)
    out[2 + j] = static_cast<uint8_t>(codes[j]);
}

/// ggml's kvalues_iq4nl.
constexpr TableCoder kIq4Nl{{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};

void iq4_nl(const float *x, const float *w, Bytes out) {
  static constexpr auto kStarts = [] {
    std::array<float, 28> starts{};
    for (int i = 0; i < 14; ++i) {
      starts[2 * i] = -141 + 4 * static_cast<float>(i);
      starts[2 * i + 1] = 127 - 4 * static_cast<float>(i);
    }
    return starts;
  }();
  Values<32> v = load<32>(x, w);
  float d = fitScale(v, kIq4Nl, kStarts, 127, roundToHalf);
  int codes[32];
  for (int i = 0; i < 32; ++i) {
    float q = kIq4Nl(splat(v.at(i) * inverse(d)))[0];
    codes[i] = static_cast<int>(std::find(kIq4Nl.value, kIq4Nl.value + 16, q) - kIq4Nl.value);
  }
  put16(out, toHalf(d));
  putNibbles(codes, out + 2);
}

/// The values of FP4 (E2M1), doubled, in ascending order; -0 is never written. The scale is a power of two, stored as
/// an exponent with bias 128 for doubled values.
constexpr TableCoder kFp4{{-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12}};

void mxfp4(const float *x, const float *w, Bytes out) {
  Values<32> v = load<32>(x, w);
  float top = std::fabs(largest(v));
  int best = 0;
  if (top > 0) {
    // The exponent that leaves the largest value just below twice the largest code, and its neighbours.
    int middle = std::ilogb(top) - 2 + 127;
    float bestError = std::numeric_limits<float>::infinity();
    for (int e = std::max(middle - 1, 0); e <= std::min(middle + 2, 254); ++e) {
      float error = measure(v, kFp4, std::ldexp(1.0f, e - 128)).error;
      if (error < bestError) {
        best = e;
        bestError = error;
      }
    }
  }
  float d = std::ldexp(1.0f, best - 128);
  int codes[32];
  for (int i = 0; i < 32; ++i) {
    float q = kFp4(splat(v.at(i) * inverse(d)))[0];
    int magnitude = static_cast<int>(std::find(kFp4.value + 8, kFp4.value + 16, std::fabs(q)) - (kFp4.value + 8));
    codes[i] = magnitude | (q < 0 ? 8 : 0);
  }
  out[0] = static_cast<uint8_t>(best);
  putNibbles(codes, out + 1);
}

// ---- a scale and a minimum ------------------------------------------------------------------------------------------

/// Writes scale and minimum; the codes are the caller's to write.
void affine(const float *x, const float *w, float largest, Bytes out, int (&codes)[32]) {
  Values<32> v = load<32>(x, w);
  Affine fit = fitAffine(v, largest, false, roundToHalf);
  codesOf(v, {0, largest}, fit.d, fit.m, 0, codes);
  put16(out, toHalf(fit.d));
  put16(out + 2, toHalf(fit.m));
}

void q4_1(const float *x, const float *w, Bytes out) {
  int codes[32];
  affine(x, w, 15, out, codes);
  putNibbles(codes, out + 4);
}

void q5_1(const float *x, const float *w, Bytes out) {
  int codes[32];
  affine(x, w, 31, out, codes);
  putFifthBits(codes, out + 4);
  putNibbles(codes, out + 8);
}

// ---- the table of types ---------------------------------------------------------------------------------------------

struct Encoder {
  gguf::Type type;
  void (*encode)(const float *x, const float *w, Bytes out); ///< one block; w may be null
};

constexpr Encoder kEncoders[] = {
    {gguf::Type::kMXFP4, mxfp4}, {gguf::Type::kQ4_0, q4_0}, {gguf::Type::kIQ4_NL, iq4_nl}, {gguf::Type::kQ4_K, q4_k},
    {gguf::Type::kQ4_1, q4_1},   {gguf::Type::kQ5_0, q5_0}, {gguf::Type::kQ5_K, q5_k},     {gguf::Type::kQ5_1, q5_1},
    {gguf::Type::kQ6_K, q6_k},   {gguf::Type::kQ8_0, q8_0}, {gguf::Type::kF16, f16},       {gguf::Type::kBF16, bf16},
    {gguf::Type::kF32, f32},
};

const Encoder *encoderOf(gguf::Type type) {
  for (const Encoder &e : kEncoders)
    if (e.type == type)
      return &e;
  return nullptr;
}

} // namespace

std::span<const gguf::Type> quantizableTypes() {
  static constexpr auto kTypes = [] {
    std::array<gguf::Type, std::size(kEncoders)> types{};
    for (size_t i = 0; i < types.size(); ++i)
      types[i] = kEncoders[i].type;
    return types;
  }();
  return kTypes;
}

bool canQuantize(gguf::Type type) { return encoderOf(type) != nullptr; }

bool quantize(gguf::Type type, std::span<const float> values, std::span<const float> weights, std::span<std::byte> out) {
  const Encoder *encoder = encoderOf(type);
  if (!encoder)
    return false;
  const gguf::TypeInfo *info = gguf::typeInfo(static_cast<uint32_t>(type));
  size_t elements = info->blockElements, bytes = info->blockBytes;
  if (values.size() % elements || values.size() / elements * bytes != out.size())
    return false;
  if (!weights.empty() && weights.size() != values.size())
    return false;
  // The largest f16 and half a step: what would round to infinity. Every other type has room for it or a scale.
  const float limit = type == gguf::Type::kF16 ? 65520.0f : std::numeric_limits<float>::infinity();
  for (float v : values)
    if (!(std::fabs(v) < limit)) // false for NaN too
      return false;
  auto *to = reinterpret_cast<uint8_t *>(out.data());
  for (size_t i = 0; i < values.size(); i += elements, to += bytes)
    encoder->encode(values.data() + i, weights.empty() ? nullptr : weights.data() + i, to);
  return true;
}

} // namespace g4::quants

/// The constant tables of GGUF's block formats, shared by the dequantiser and the code generators.
/// Source: ggml-common.h; the OCP Microscaling formats specification for FP4.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include <bit>
#include <cstdint>
#include <span>

namespace g4::quants {

/// A codebook. A block holds indices of points; a point is `length` values.
struct Grid {
  std::span<const uint16_t> points; ///< code j of a point in bits [j * bits(), (j + 1) * bits())
  unsigned length;                  ///< 8 or 4
  std::span<const int8_t> values;   ///< what a code stands for: magnitudes, or -1, 0, 1 in the grid of IQ1

  unsigned bits() const { return 16 / length; }
  int8_t value(size_t point, unsigned j) const {
    return values[points[point] >> (j * bits()) & ((1u << bits()) - 1)];
  }
};

/// The grid of a type that has one (IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M), else null.
const Grid *gridOf(gguf::Type type);

/// Signs of eight values, bit j set where value j is negative, from the seven bits that IQ2_XXS, IQ2_XS and
/// IQ3_XXS store: the number of negative values is even.
constexpr uint8_t signsOf(unsigned sevenBits) {
  return static_cast<uint8_t>(sevenBits | (std::popcount(sevenBits) & 1) << 7);
}

/// IQ4_NL and IQ4_XS: what a nibble stands for.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// MXFP4 and NVFP4: twice the E2M1 value of a nibble. The factor 1/2 is in `mxfp4Scale` and `nvfp4Scale`.
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// IQ1_S and IQ1_M shift each group of grid values by this or its negative.
inline constexpr float kIq1Delta = 0.125f;

/// Half the value of an E8M0 exponent: 2^(e - 128), whose smallest are subnormal.
constexpr float mxfp4Scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t(0x00200000) << e : uint32_t(e - 1) << 23);
}

/// Half the value of an unsigned E4M3 number (bit 7 is ignored). 0x7f, its NaN, is 0 as in ggml.
constexpr float nvfp4Scale(uint8_t x) {
  if (x == 0x7f)
    return 0.0f;
  int exponent = x >> 3 & 15, mantissa = x & 7;
  float value = exponent == 0
                    ? static_cast<float>(mantissa) * 0x1p-9f
                    : std::bit_cast<float>(uint32_t(exponent + 120) << 23 | uint32_t(mantissa) << 20);
  return value * 0.5f;
}

} // namespace g4::quants

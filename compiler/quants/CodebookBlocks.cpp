#include "compiler/quants/Blocks.h"
#include "compiler/quants/Grids.h"

namespace g4::quants {
namespace {

/// Writes the values of a grid's point times `scale`, negative where `signs` has a bit; gives the end.
float *writePoint(const Grid &grid, size_t point, float scale, unsigned signs, float *y) {
  for (unsigned j = 0; j < grid.length; ++j) {
    float value = scale * grid.value(point, j);
    *y++ = signs >> j & 1 ? -value : value;
  }
  return y;
}

/// As `writePoint` for the grid of IQ1, whose values have signs and are shifted by `delta`.
float *writeShifted(const Grid &grid, size_t point, float scale, float delta, float *y) {
  for (unsigned j = 0; j < grid.length; ++j)
    *y++ = scale * (grid.value(point, j) + delta);
  return y;
}

/// The scale of IQ2's groups: (1/2 + nibble) / 4 of the block's.
float iq2Scale(float d, unsigned nibble) { return d * (0.5f + static_cast<float>(nibble)) * 0.25f; }

unsigned nibble(uint8_t byte, int which) { return which ? byte >> 4 : byte & 15u; }

} // namespace

void iq2_xxs(Bytes b, float *y) { // f16 scale; for each 32: four indices, then 4 x 7 signs and a 4-bit scale
  const Grid &grid = *gridOf(gguf::Type::kIQ2_XXS);
  float d = half(b);
  for (int group = 0; group < 8; ++group) {
    Bytes indices = b + 2 + 8 * group;
    uint32_t word = read32(indices + 4);
    float scale = iq2Scale(d, word >> 28);
    for (int k = 0; k < 4; ++k)
      y = writePoint(grid, indices[k], scale, signsOf(word >> (7 * k) & 127), y);
  }
}

void iq2_xs(Bytes b, float *y) { // f16 scale, 32 u16 (9 bits index, 7 bits signs), 16 nibble scales
  const Grid &grid = *gridOf(gguf::Type::kIQ2_XS);
  float d = half(b);
  for (int k = 0; k < 32; ++k) { // of 8; two share a scale
    uint16_t word = read16(b + 2 + 2 * k);
    float scale = iq2Scale(d, nibble(b[66 + k / 4], k / 2 % 2));
    y = writePoint(grid, word & 511, scale, signsOf(word >> 9), y);
  }
}

void iq2_s(Bytes b,
           float *y) { // f16 scale, 32 low bytes, 32 bytes of signs, 8 bytes of high pairs, 16 nibbles
  const Grid &grid = *gridOf(gguf::Type::kIQ2_S);
  float d = half(b);
  for (int k = 0; k < 32; ++k) {
    unsigned high = b[66 + k / 4] >> (2 * (k % 4)) & 3;
    float scale = iq2Scale(d, nibble(b[74 + k / 4], k / 2 % 2));
    y = writePoint(grid, b[2 + k] | high << 8, scale, b[34 + k], y);
  }
}

void iq3_xxs(Bytes b, float *y) { // f16 scale, 64 indices, then for each 32: 4 x 7 signs and a 4-bit scale
  const Grid &grid = *gridOf(gguf::Type::kIQ3_XXS);
  float d = half(b);
  for (int k = 0; k < 64; ++k) { // of 4; two share signs, eight share a scale
    uint32_t word = read32(b + 66 + 4 * (k / 8));
    float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    unsigned signs = signsOf(word >> (7 * (k / 2 % 4)) & 127);
    y = writePoint(grid, b[2 + k], scale, signs >> (k % 2 * 4), y);
  }
}

void iq3_s(Bytes b,
           float *y) { // f16 scale, 64 low bytes, 8 bytes of ninth bits, 32 of signs, 8 nibble scales
  const Grid &grid = *gridOf(gguf::Type::kIQ3_S);
  float d = half(b);
  for (int k = 0; k < 64; ++k) {
    unsigned high = b[66 + k / 8] >> (k % 8) & 1;
    float scale = d * static_cast<float>(1 + 2 * nibble(b[106 + k / 16], k / 8 % 2));
    y = writePoint(grid, b[2 + k] | high << 8, scale, b[74 + k / 2] >> (k % 2 * 4), y);
  }
}

void iq1_s(Bytes b, float *y) { // f16 scale, 32 low bytes, for each 32: u16 of 4 x 3 high bits, scale, shift
  const Grid &grid = *gridOf(gguf::Type::kIQ1_S);
  float d = half(b);
  for (int k = 0; k < 32; ++k) {
    uint16_t word = read16(b + 34 + 2 * (k / 4));
    float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    float delta = word & 0x8000 ? -kIq1Delta : kIq1Delta;
    y = writeShifted(grid, b[2 + k] | (word >> (3 * (k % 4)) & 7) << 8, scale, delta, y);
  }
}

void iq1_m(Bytes b,
           float *y) { // 32 low bytes, 32 nibbles (3 high bits, shift), 4 u16: 4 x 3-bit scales, f16 part
  const Grid &grid = *gridOf(gguf::Type::kIQ1_M);
  Bytes scales = b + 48;
  uint16_t bits = 0; // the block's scale, from the top nibble of each word
  for (int i = 0; i < 4; ++i)
    bits |= static_cast<uint16_t>(read16(scales + 2 * i) >> 12 << (4 * i));
  float d = halfToFloat(bits);
  for (int k = 0; k < 32; ++k) { // of 8; two share a scale
    unsigned high = nibble(b[32 + k / 2], k % 2);
    unsigned three = read16(scales + 2 * (k / 8)) >> (3 * (k / 2 % 4)) & 7;
    float scale = d * static_cast<float>(2 * three + 1);
    y = writeShifted(grid, b[k] | (high & 7) << 8, scale, high & 8 ? -kIq1Delta : kIq1Delta, y);
  }
}

void iq4_xs(Bytes b, float *y) { // f16 scale, u16 of high pairs, 8 low nibbles of scales, 128 bytes
  float d = half(b);
  uint16_t high = read16(b + 2);
  for (int group = 0; group < 8; ++group, y += 32) {
    int scale = static_cast<int>(nibble(b[4 + group / 2], group % 2) | (high >> (2 * group) & 3) << 4) - 32;
    float dl = d * static_cast<float>(scale);
    Bytes q = b + 8 + 16 * group;
    for (int j = 0; j < 16; ++j) {
      y[j] = dl * kIq4Values[q[j] & 15];
      y[j + 16] = dl * kIq4Values[q[j] >> 4];
    }
  }
}

} // namespace g4::quants

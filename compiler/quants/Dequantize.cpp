// Written from the block layouts in ggml-common.h. Fields are little-endian; no block is aligned.
#include "compiler/quants/Dequantize.h"

#include <bit>
#include <cstring>

namespace g4::quants {
namespace {

using Bytes = const uint8_t *;

uint16_t read16(Bytes p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
uint32_t read32(Bytes p) { return read16(p) | static_cast<uint32_t>(read16(p + 2)) << 16; }
float half(Bytes p) { return halfToFloat(read16(p)); }

void f32(Bytes b, float *y) { *y = std::bit_cast<float>(read32(b)); }
void f16(Bytes b, float *y) { *y = half(b); }
void bf16(Bytes b, float *y) { *y = bfloat16ToFloat(read16(b)); }

// Blocks of 32: byte j holds elements j (low nibble) and j + 16 (high nibble).

void q4_0(Bytes b, float *y) { // f16 scale, 16 bytes
  float d = half(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b[2 + j] & 15) - 8) * d;
    y[j + 16] = static_cast<float>((b[2 + j] >> 4) - 8) * d;
  }
}

void q4_1(Bytes b, float *y) { // f16 scale, f16 minimum, 16 bytes
  float d = half(b), m = half(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(b[4 + j] & 15) * d + m;
    y[j + 16] = static_cast<float>(b[4 + j] >> 4) * d + m;
  }
}

// The fifth bit of element j is bit j of a 32-bit word.
int fifthBit(uint32_t word, int j) { return static_cast<int>((word >> j) & 1) << 4; }

void q5_0(Bytes b, float *y) { // f16 scale, u32 fifth bits, 16 bytes
  float d = half(b);
  uint32_t high = read32(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(((b[6 + j] & 15) | fifthBit(high, j)) - 16) * d;
    y[j + 16] = static_cast<float>(((b[6 + j] >> 4) | fifthBit(high, j + 16)) - 16) * d;
  }
}

void q5_1(Bytes b, float *y) { // f16 scale, f16 minimum, u32 fifth bits, 16 bytes
  float d = half(b), m = half(b + 2);
  uint32_t high = read32(b + 4);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b[8 + j] & 15) | fifthBit(high, j)) * d + m;
    y[j + 16] = static_cast<float>((b[8 + j] >> 4) | fifthBit(high, j + 16)) * d + m;
  }
}

void q8_0(Bytes b, float *y) { // f16 scale, 32 signed bytes
  float d = half(b);
  for (int j = 0; j < 32; ++j)
    y[j] = static_cast<float>(static_cast<int8_t>(b[2 + j])) * d;
}

// Blocks of 256.

struct ScaleMin {
  int scale, min;
};

/// The j-th of eight 6-bit (scale, minimum) pairs in 12 bytes: the first four lie in the low six bits, the
/// last four are split between bytes 8 to 11 and the top two bits of the first eight.
ScaleMin scaleMin(Bytes p, int j) {
  if (j < 4)
    return {p[j] & 63, p[j + 4] & 63};
  return {(p[j + 4] & 15) | (p[j - 4] >> 6) << 4, (p[j + 4] >> 4) | (p[j] >> 6) << 4};
}

void q4_k(Bytes b, float *y) { // f16 scale of scales, f16 scale of minimums, 12 bytes of pairs, 128 bytes
  float d = half(b), dmin = half(b + 2);
  for (int group = 0; group < 8; ++group) { // of 32; two groups share 32 bytes
    ScaleMin pair = scaleMin(b + 4, group);
    float scale = d * static_cast<float>(pair.scale), min = dmin * static_cast<float>(pair.min);
    Bytes q = b + 16 + group / 2 * 32;
    for (int l = 0; l < 32; ++l)
      *y++ = scale * static_cast<float>(group % 2 ? q[l] >> 4 : q[l] & 15) - min;
  }
}

void q5_k(Bytes b, float *y) { // as q4_k, with 32 bytes of fifth bits before the 128 bytes
  float d = half(b), dmin = half(b + 2);
  Bytes high = b + 16;
  for (int group = 0; group < 8; ++group) {
    ScaleMin pair = scaleMin(b + 4, group);
    float scale = d * static_cast<float>(pair.scale), min = dmin * static_cast<float>(pair.min);
    Bytes q = b + 48 + group / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      int value = (group % 2 ? q[l] >> 4 : q[l] & 15) + ((high[l] >> group & 1) << 4);
      *y++ = scale * static_cast<float>(value) - min;
    }
  }
}

void q6_k(Bytes b, float *y) { // 128 bytes low nibbles, 64 bytes high pairs, 16 signed scales, f16 scale
  float d = half(b + 208);
  for (int side = 0; side < 2; ++side, y += 128) {
    Bytes low = b + side * 64, high = b + 128 + side * 32, scales = b + 192 + side * 8;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int l = 0; l < 32; ++l) {
        uint8_t byte = low[l + 32 * (quarter % 2)];
        int value = (quarter < 2 ? byte & 15 : byte >> 4) | (high[l] >> (2 * quarter) & 3) << 4;
        float scale = d * static_cast<float>(static_cast<int8_t>(scales[2 * quarter + l / 16]));
        y[32 * quarter + l] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

using Decoder = void (*)(Bytes, float *);

Decoder decoderOf(gguf::Type type) {
  using enum gguf::Type;
  switch (type) {
  case kF32:
    return f32;
  case kF16:
    return f16;
  case kBF16:
    return bf16;
  case kQ4_0:
    return q4_0;
  case kQ4_1:
    return q4_1;
  case kQ5_0:
    return q5_0;
  case kQ5_1:
    return q5_1;
  case kQ8_0:
    return q8_0;
  case kQ4_K:
    return q4_k;
  case kQ5_K:
    return q5_k;
  case kQ6_K:
    return q6_k;
  default:
    return nullptr;
  }
}

} // namespace

float bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

bool dequantize(gguf::Type type, std::span<const std::byte> blocks, std::span<float> out) {
  Decoder decode = decoderOf(type);
  const gguf::TypeInfo *info = gguf::typeInfo(static_cast<uint32_t>(type));
  if (!decode || !info)
    return false;
  size_t elements = info->blockElements, bytes = info->blockBytes;
  if (blocks.size() % bytes || blocks.size() / bytes * elements != out.size())
    return false;
  Bytes block = reinterpret_cast<Bytes>(blocks.data());
  for (size_t i = 0; i < out.size(); i += elements, block += bytes)
    decode(block, out.data() + i);
  return true;
}

} // namespace g4::quants

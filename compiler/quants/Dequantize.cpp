#include "compiler/quants/Blocks.h"

#include <bit>

namespace g4::quants {
namespace {

void f32(Bytes b, float *y) { *y = std::bit_cast<float>(read32(b)); }
void f16(Bytes b, float *y) { *y = half(b); }
void bf16(Bytes b, float *y) { *y = bfloat16ToFloat(read16(b)); }

Decoder decoderOf(gguf::Type type) {
  using enum gguf::Type;
  switch (type) {
  case kF32:
    return f32;
  case kF16:
    return f16;
  case kBF16:
    return bf16;
  case kQ1_0:
    return q1_0;
  case kQ2_0:
    return q2_0;
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
  case kQ2_K:
    return q2_k;
  case kQ3_K:
    return q3_k;
  case kQ4_K:
    return q4_k;
  case kQ5_K:
    return q5_k;
  case kQ6_K:
    return q6_k;
  case kTQ1_0:
    return tq1_0;
  case kTQ2_0:
    return tq2_0;
  case kIQ1_S:
    return iq1_s;
  case kIQ1_M:
    return iq1_m;
  case kIQ2_XXS:
    return iq2_xxs;
  case kIQ2_XS:
    return iq2_xs;
  case kIQ2_S:
    return iq2_s;
  case kIQ3_XXS:
    return iq3_xxs;
  case kIQ3_S:
    return iq3_s;
  case kIQ4_NL:
    return iq4_nl;
  case kIQ4_XS:
    return iq4_xs;
  case kMXFP4:
    return mxfp4;
  case kNVFP4:
    return nvfp4;
  default: // integers, f64 and numbers that are no type
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

bool canDequantize(gguf::Type type) { return decoderOf(type) != nullptr; }

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

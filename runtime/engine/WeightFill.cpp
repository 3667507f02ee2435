#include "runtime/engine/WeightFill.h"
#include "runtime/module/PackedLayout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace g4::engine {
namespace {

/// splitmix64: every output is well mixed, so short streams from nearby seeds are unrelated.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  void fill(std::span<std::byte> bytes) {
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    const uint64_t word = next();
    std::memcpy(bytes.data() + i, &word, bytes.size() - i);
  }
  /// In [low, high), steps of 2^-24 of the range.
  float uniform(float low, float high) { return low + (high - low) * (float(next() >> 40) * 0x1p-24f); }

private:
  uint64_t state_;
};

uint64_t hashName(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325; // FNV-1a
  for (unsigned char c : name)
    h = (h ^ c) * 0x100000001b3;
  return h;
}

/// f16 bits of 2^exponent * (1 + fraction/1024), with fewer bits below 2^-14, as scales of real files have.
uint16_t halfBits(int exponent, uint32_t fraction) {
  fraction &= 1023;
  if (exponent < -14)
    return uint16_t((1024 + fraction) >> std::min(-14 - exponent, 10));
  return uint16_t(((std::min(exponent, 15) + 15) << 10) | fraction);
}
void store16(std::byte *at, uint16_t bits) { std::memcpy(at, &bits, 2); }
void store32(std::byte *at, float value) { std::memcpy(at, &value, 4); }

enum class Float { kF32, kF16, kBf16 };

/// `count` values with random signs, magnitudes in [2^(e-1), 2^(e+1)).
void fillFloats(Random &random, Float type, uint64_t count, int exponent, std::byte *at) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t r = random.next();
    const int e = exponent - int(r & 1);
    const uint32_t sign = uint32_t(r >> 1) & 1, fraction = uint32_t(r >> 2);
    const uint32_t single =
        (sign << 31) | (uint32_t(std::clamp(e + 127, 1, 254)) << 23) | (fraction & 0x7fffff);
    if (type == Float::kF32)
      std::memcpy(at + 4 * i, &single, 4);
    else if (type == Float::kBf16)
      store16(at + 2 * i, uint16_t(single >> 16));
    else
      store16(at + 2 * i, uint16_t(sign << 15 | halfBits(e, fraction)));
  }
}

void fillPacked(Random &random, const module::PackedLayout &layout, int exponent,
                std::span<std::byte> bytes) {
  if (layout.isFloat) {
    const Float type = layout.bits == 32                        ? Float::kF32
                       : layout.name == std::string_view("f16") ? Float::kF16
                                                                : Float::kBf16;
    fillFloats(random, type, bytes.size() / (layout.bits / 8), exponent, bytes.data());
    return;
  }
  random.fill(bytes);
  // The largest |code - zero| is about 2^(bits-1); sub-block scales, at most 63, count 2^5 more.
  const int scaleExponent = exponent - int(layout.bits) + 1 - (layout.subBlocks ? 5 : 0);
  const uint64_t superBytes = layout.superBytes();
  for (uint64_t begin = 0; begin + superBytes <= bytes.size(); begin += superBytes) {
    std::byte *block = bytes.data() + begin;
    for (int row = 0; row < 16; ++row) {
      const uint32_t fraction = uint32_t(random.next());
      store16(block + 2 * row, halfBits(scaleExponent, fraction));
      if (!layout.hasMin)
        continue;
      // Centre the codes: minus half their range times the scale. K formats subtract the minimum themselves.
      const uint16_t sign = layout.subBlocks ? 0 : 0x8000;
      store16(block + 32 + 2 * row,
              uint16_t(sign | halfBits(scaleExponent + int(layout.bits) - 1, fraction)));
    }
    std::byte *scales = block + 32 + (layout.hasMin ? 32 : 0);
    for (uint32_t i = 0; i < layout.subBlocks * 16; ++i) {
      scales[i] = scales[i] & std::byte(0x3f);
      if (layout.hasMin) // the minimum belongs to the scale, or the block is all of one sign
        scales[layout.subBlocks * 16 + i] = scales[i];
    }
  }
}

/// A GGUF block format: where its f16 fields are. The rest may be any bytes.
struct BlockFormat {
  std::string_view name;
  uint32_t values, bytes;
  int32_t scaleOffset;
  int32_t minOffset; // -1: none
  int32_t codeBits;  // log2 of the largest factor of the scale
};
constexpr BlockFormat kBlockFormats[] = {
    {"q4_0", 32, 18, 0, -1, 3},   {"q4_1", 32, 20, 0, 2, 4},       {"q5_0", 32, 22, 0, -1, 4},
    {"q5_1", 32, 24, 0, 2, 5},    {"q8_0", 32, 34, 0, -1, 7},      {"q4_k", 256, 144, 0, 2, 10},
    {"q5_k", 256, 176, 0, 2, 11}, {"q6_k", 256, 210, 208, -1, 12},
};

bool fillTable(Random &random, std::string_view type, int exponent, std::span<std::byte> bytes) {
  if (type == "f32" || type == "f16" || type == "bf16") {
    const Float element = type == "f32" ? Float::kF32 : type == "f16" ? Float::kF16 : Float::kBf16;
    fillFloats(random, element, bytes.size() / (element == Float::kF32 ? 4 : 2), exponent, bytes.data());
    return true;
  }
  for (const BlockFormat &format : kBlockFormats) {
    if (format.name != type)
      continue;
    random.fill(bytes);
    for (uint64_t begin = 0; begin + format.bytes <= bytes.size(); begin += format.bytes) {
      const uint32_t fraction = uint32_t(random.next());
      store16(bytes.data() + begin + format.scaleOffset, halfBits(exponent - format.codeBits, fraction));
      if (format.minOffset >= 0)
        store16(bytes.data() + begin + format.minOffset, halfBits(exponent - format.codeBits, fraction));
    }
    return true;
  }
  return false;
}

} // namespace

Status fillWeight(const WeightShape &shape, uint64_t seed, std::span<std::byte> bytes) {
  Random random(seed ^ hashName(shape.name));
  const int exponent = -int(std::lround(std::log2(double(std::max<uint64_t>(shape.columns, 1))) / 2));
  if (shape.layout == "vector") {
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4)
      store32(bytes.data() + i, random.uniform(0.5f, 1.5f));
    return {};
  }
  if (const module::PackedLayout *layout = module::packedLayout(shape.layout)) {
    fillPacked(random, *layout, exponent, bytes);
    return {};
  }
  if (shape.layout.starts_with("table:") && fillTable(random, shape.layout.substr(6), exponent, bytes))
    return {};
  return incompatible("weight '" + std::string(shape.name) + "' has the unknown layout '" +
                      std::string(shape.layout) + "'");
}

} // namespace g4::engine

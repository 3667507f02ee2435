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

/// An exponent byte for the scale 2^exponent: such scales count half.
std::byte e8m0(int exponent) { return std::byte(std::clamp(exponent + 128, 1, 254)); }
/// An unsigned float of four exponent bits that counts as 0.5 to 1, as it counts half.
std::byte nearOne(std::byte random) { return (random & std::byte(7)) | std::byte(0x38); }

struct PackedScale {
  int exponent; ///< of d, or of what stands for it
  int toMin;    ///< of a minimum that centres the codes, less that
};

PackedScale packedScale(const module::PackedLayout &layout, int exponent) {
  // The largest magnitude of a code less its zero or minimum, about; a sub-block's scale counts on top.
  const int code = std::ilogb(float(layout.largest));
  int factor = 0;
  if (layout.scales == module::Scales::kI8 || layout.scales == module::Scales::kU8)
    factor = 5;
  else if (layout.scales == module::Scales::kU4)
    factor = 3;
  else if (layout.scales == module::Scales::kGrid)
    factor = std::ilogb(layout.grid.unit) + layout.grid.scale.bits;
  return {exponent - code - factor, code};
}

/// Makes the scales of a super-block of random bytes valid.
void fillScales(Random &random, const module::PackedLayout &layout, const PackedScale &scale, std::byte *block) {
  for (int row = 0; row < 16 && layout.hasD(); ++row) {
    const uint32_t fraction = uint32_t(random.next());
    store16(block + 2 * row, halfBits(scale.exponent, fraction));
    if (!layout.hasMin)
      continue;
    // Centre the codes: minus half their range times the scale. K formats subtract the minimum themselves.
    const uint16_t sign = layout.subBlocks ? 0 : 0x8000;
    store16(block + 32 + 2 * row, uint16_t(sign | halfBits(scale.exponent + scale.toMin, fraction)));
  }
  std::byte *scales = block + layout.scalesOffset();
  for (uint32_t i = 0; i < layout.subBlocks * 16; ++i)
    switch (layout.scales) {
    case module::Scales::kNone:
    case module::Scales::kGrid: // among the codes, any bits
      break;
    case module::Scales::kI8:
    case module::Scales::kU8:
      scales[i] &= std::byte(0x3f);
      if (layout.hasMin) // the minimum belongs to the scale, or the block is all of one sign
        scales[layout.subBlocks * 16 + i] = scales[i];
      break;
    case module::Scales::kU4:
      scales[i] = (scales[i] & std::byte(15)) | scales[i] << 4;
      break;
    case module::Scales::kE8m0:
      scales[i] = e8m0(scale.exponent);
      break;
    case module::Scales::kUe4m3:
      scales[i] = nearOne(scales[i]);
      break;
    }
}

void fillPacked(Random &random, const module::PackedLayout &layout, uint64_t columns, int exponent,
                std::span<std::byte> bytes) {
  if (layout.isFloat) {
    const Float type = layout.bits == 32                        ? Float::kF32
                       : layout.name == std::string_view("f16") ? Float::kF16
                                                                : Float::kBf16;
    fillFloats(random, type, bytes.size() / (layout.bits / 8), exponent, bytes.data());
    return;
  }
  random.fill(bytes);
  const PackedScale scale = packedScale(layout, exponent);
  const uint64_t groupBytes = layout.groupBytes(columns), superBytes = layout.superBytes();
  for (uint64_t group = 0; groupBytes && group + groupBytes <= bytes.size(); group += groupBytes) {
    if (layout.groupHeaderBytes())
      for (int row = 0; row < 16; ++row)
        store32(bytes.data() + group + 4 * row, std::ldexp(1.0f, scale.exponent + 1));
    for (uint64_t begin = layout.groupHeaderBytes(); begin < groupBytes; begin += superBytes)
      fillScales(random, layout, scale, bytes.data() + group + begin);
  }
}

/// A GGUF block format: where its f16 fields are. The rest may be any bytes, but for `Scale`s of another kind.
struct BlockFormat {
  enum class Scale { kHalf, kE8m0, kUe4m3, kNibbles };
  std::string_view name;
  uint32_t bytes;
  int32_t scaleOffset;
  int32_t minOffset; // -1: none
  int32_t codeBits;  // log2 of the largest factor of the scale
  Scale scale = Scale::kHalf;
};
constexpr BlockFormat kBlockFormats[] = {
    {"q4_0", 18, 0, -1, 3},
    {"q4_1", 20, 0, 2, 4},
    {"q5_0", 22, 0, -1, 4},
    {"q5_1", 24, 0, 2, 5},
    {"q8_0", 34, 0, -1, 7},
    {"q2_k", 84, 80, 82, 6},
    {"q3_k", 110, 108, -1, 7},
    {"q4_k", 144, 0, 2, 10},
    {"q5_k", 176, 0, 2, 11},
    {"q6_k", 210, 208, -1, 12},
    {"iq4_nl", 18, 0, -1, 7},
    {"iq4_xs", 136, 0, -1, 12},
    {"mxfp4", 17, 0, -1, 4, BlockFormat::Scale::kE8m0},
    {"nvfp4", 36, 0, -1, 4, BlockFormat::Scale::kUe4m3},
    {"tq1_0", 54, 52, -1, 0},
    {"tq2_0", 66, 64, -1, 1},
    {"q1_0", 18, 0, -1, 0},
    {"q2_0", 18, 0, -1, 1},
    {"iq2_xxs", 66, 0, -1, 7},
    {"iq2_xs", 74, 0, -1, 7},
    {"iq2_s", 82, 0, -1, 7},
    {"iq3_xxs", 98, 0, -1, 9},
    {"iq3_s", 110, 0, -1, 9},
    {"iq1_s", 50, 0, -1, 4},
    {"iq1_m", 56, 48, -1, 4, BlockFormat::Scale::kNibbles},
};

void fillBlock(Random &random, const BlockFormat &format, int exponent, std::byte *block) {
  using enum BlockFormat::Scale;
  const uint16_t half = halfBits(exponent - format.codeBits, uint32_t(random.next()));
  std::byte *scale = block + format.scaleOffset;
  switch (format.scale) {
  case kHalf:
    store16(scale, half);
    break;
  case kE8m0:
    *scale = e8m0(exponent - format.codeBits);
    break;
  case kUe4m3: // near 1; the row's scale says the rest
    for (int i = 0; i < 4; ++i)
      scale[i] = nearOne(scale[i]);
    break;
  case kNibbles: // the half's bits in the top nibbles of four words
    for (int i = 0; i < 4; ++i)
      scale[2 * i + 1] = (scale[2 * i + 1] & std::byte(15)) | std::byte((half >> (4 * i) & 15) << 4);
    break;
  }
  if (format.minOffset >= 0)
    store16(block + format.minOffset, half);
}

bool fillTable(Random &random, const WeightShape &shape, std::string_view type, int exponent,
               std::span<std::byte> bytes) {
  if (type == "f32" || type == "f16" || type == "bf16") {
    const Float element = type == "f32" ? Float::kF32 : type == "f16" ? Float::kF16 : Float::kBf16;
    fillFloats(random, element, bytes.size() / (element == Float::kF32 ? 4 : 2), exponent, bytes.data());
    return true;
  }
  for (const BlockFormat &format : kBlockFormats) {
    if (format.name != type)
      continue;
    random.fill(bytes);
    const uint64_t rowBytes = bytes.size() / std::max<uint64_t>(shape.rows, 1);
    const bool rowScale = format.scale == BlockFormat::Scale::kUe4m3;
    for (uint64_t row = 0; row + rowBytes <= bytes.size() && rowBytes; row += rowBytes) {
      for (uint64_t at = 0; at + format.bytes <= rowBytes; at += format.bytes)
        fillBlock(random, format, exponent, bytes.data() + row + at);
      if (rowScale)
        store32(bytes.data() + row + rowBytes - 4, std::ldexp(1.0f, exponent - format.codeBits + 1));
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
    fillPacked(random, *layout, shape.columns, exponent, bytes);
    return {};
  }
  if (shape.layout.starts_with("table:") && fillTable(random, shape, shape.layout.substr(6), exponent, bytes))
    return {};
  return incompatible("weight '" + std::string(shape.name) + "' has the unknown layout '" +
                      std::string(shape.layout) + "'");
}

} // namespace g4::engine

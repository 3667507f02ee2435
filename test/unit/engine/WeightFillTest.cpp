#include "compiler/quants/Dequantize.h"
#include "runtime/engine/WeightFill.h"
#include "runtime/module/PackedLayout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace g4::engine {
namespace {

using Bytes = std::vector<std::byte>;

float halfToFloat(const std::byte *at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  const int exponent = (bits >> 10) & 31;
  EXPECT_NE(exponent, 31) << "infinite or NaN";
  const float value =
      exponent ? std::ldexp(float(1024 + (bits & 1023)), exponent - 25) : std::ldexp(float(bits & 1023), -24);
  return bits & 0x8000 ? -value : value;
}

/// Scale and addend of one row of a sub-block, after module/PackedLayout.h's text.
struct Affine {
  float scale, addend;
};

Affine affineOf(const module::PackedLayout &layout, const std::byte *group, const std::byte *super, uint32_t sub,
                uint32_t row) {
  using module::Scales;
  const auto byteOf = [&](uint32_t offset) { return uint8_t(super[offset + 16 * sub + row]); };
  const float d = layout.hasD() ? halfToFloat(super + 2 * row) : 0, m = layout.hasMin ? halfToFloat(super + 32 + 2 * row) : 0;
  const uint32_t scales = layout.scalesOffset();
  switch (layout.scales) {
  case Scales::kNone:
    return {d, m};
  case Scales::kI8:
    return {d * float(int8_t(byteOf(scales))), 0};
  case Scales::kU8:
    return {d * float(byteOf(scales)), layout.hasMin ? -m * float(byteOf(layout.minimaOffset())) : 0};
  case Scales::kU4:
    return {d * float(byteOf(scales) & 15), -m * float(byteOf(scales) >> 4)};
  case Scales::kE8m0:
    return {std::ldexp(1.0f, byteOf(scales) - 128), 0};
  case Scales::kUe4m3: {
    float rowScale;
    std::memcpy(&rowScale, group + 4 * row, 4);
    const uint8_t b = byteOf(scales);
    EXPECT_NE(b & 0x7f, 0x7f);
    return {rowScale * std::ldexp(float(8 + (b & 7)), (b >> 3 & 15) - 11), 0};
  }
  case Scales::kGrid: // the fields are any bits: the middle of their range
    return {d * layout.grid.unit * float(1 << layout.grid.scale.bits), 0};
  }
  return {};
}

/// A code less its zero, where it is in planes of bits; in the middle of the range for others.
float codeOf(const module::PackedLayout &layout, const std::byte *block, uint32_t c, uint32_t row) {
  if (layout.codes != module::Codes::kPlanes)
    return float(layout.largest) / 2;
  if (layout.bits == 8)
    return float(int8_t(block[c / 4 * 64 + row * 4 + c % 4]));
  uint32_t code = 0, taken = 0;
  for (uint32_t width : {4, 2, 1}) {
    if (!(layout.bits & width))
      continue;
    const uint32_t i = c / 4, vector = width == 4 ? i % 4 : width == 2 ? i / 4 : 0;
    const uint32_t shift = width == 4 ? i / 4 * 4 : width == 2 ? i % 4 * 2 : i;
    code |= (uint32_t(block[vector * 64 + row * 4 + c % 4]) >> shift & ((1u << width) - 1)) << taken;
    block += 64 * width;
    taken += width;
  }
  return float(int(code * layout.step) - layout.zero);
}

/// Values of a packed matrix of 16 rows; where codes are not in planes, their scales times typical codes.
std::vector<float> unpack(const module::PackedLayout &layout, const Bytes &bytes, uint32_t columns) {
  std::vector<float> out;
  for (uint32_t s = 0; s < columns / layout.superColumns; ++s) {
    const std::byte *super = bytes.data() + layout.groupHeaderBytes() + s * layout.superBytes();
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t c = 0; c < layout.superColumns; ++c) {
        const uint32_t sub = layout.subBlocks ? c * layout.subBlocks / layout.superColumns : 0;
        const Affine a = affineOf(layout, bytes.data(), super, sub, row);
        const std::byte *block = super + layout.headerBytes() + c / 32 * layout.blockCodeBytes();
        out.push_back(a.scale * codeOf(layout, block, c % 32, row) + a.addend);
      }
  }
  return out;
}

TEST(WeightFillTest, EveryPackedLayoutGetsFiniteValuesOfTheRightSize) {
  constexpr uint32_t kColumns = 1024;
  size_t checked = 0;
  for (const module::PackedLayout &layout : module::kPackedLayouts) {
    Bytes bytes(layout.matrixBytes(16, kColumns));
    ASSERT_TRUE(fillWeight({"w", layout.name, 16, kColumns}, 3, bytes).ok()) << layout.name;
    if (layout.isFloat)
      continue;
    double squares = 0;
    const auto values = unpack(layout, bytes, kColumns);
    for (float value : values) {
      ASSERT_TRUE(std::isfinite(value)) << layout.name;
      ASSERT_LT(std::abs(value), 4.0f / 32) << layout.name;
      squares += double(value) * value;
    }
    const double rms = std::sqrt(squares / double(values.size()));
    EXPECT_GT(rms, 0.1 / 32) << layout.name;
    EXPECT_LT(rms, 2.0 / 32) << layout.name;
    ++checked;
  }
  EXPECT_EQ(checked, 25u);
}

TEST(WeightFillTest, FloatsAreFinite) {
  Bytes bytes(16 * 64 * 4);
  ASSERT_TRUE(fillWeight({"w", "f32", 16, 64}, 3, bytes).ok());
  bool negative = false, positive = false;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, bytes.data() + i, 4);
    ASSERT_TRUE(std::abs(value) >= 1.0f / 32 && std::abs(value) < 0.5f) << value;
    negative |= value < 0;
    positive |= value > 0;
  }
  EXPECT_TRUE(negative && positive);
}

TEST(WeightFillTest, TablesHaveValuesOfTheRightSize) {
  constexpr uint32_t kRows = 3, kColumns = 1024;
  size_t checked = 0;
  for (const module::PackedLayout &layout : module::kPackedLayouts) {
    const gguf::TypeInfo &type = *gguf::typeInfoByName(layout.name);
    const size_t blocks = kColumns / type.blockElements * type.blockBytes, rowBytes = blocks + (layout.groupHeaderBytes() ? 4 : 0);
    Bytes bytes(kRows * rowBytes);
    ASSERT_TRUE(fillWeight({"t", "table:" + std::string(layout.name), kRows, kColumns}, 3, bytes).ok()) << layout.name;
    double squares = 0;
    for (uint32_t row = 0; row < kRows; ++row) {
      std::vector<float> values(kColumns);
      ASSERT_TRUE(quants::dequantize(type.type, std::span(bytes).subspan(row * rowBytes, blocks), values));
      float scale = 1;
      if (layout.groupHeaderBytes())
        std::memcpy(&scale, bytes.data() + row * rowBytes + blocks, 4);
      for (float value : values) {
        ASSERT_TRUE(std::abs(value * scale) < 4.0f / 32) << layout.name << " " << value * scale; // false for NaN
        squares += double(value) * scale * value * scale;
      }
    }
    const double rms = std::sqrt(squares / (kRows * kColumns));
    EXPECT_GT(rms, 0.05 / 32) << layout.name;
    ++checked;
  }
  EXPECT_EQ(checked, 28u);
}

TEST(WeightFillTest, SeedAndNameDecideTheBytes) {
  Bytes a(4096), b(4096), c(4096), d(4096);
  ASSERT_TRUE(fillWeight({"w", "vector", 1, 1024}, 1, a).ok());
  ASSERT_TRUE(fillWeight({"w", "vector", 1, 1024}, 1, b).ok());
  ASSERT_TRUE(fillWeight({"w", "vector", 1, 1024}, 2, c).ok());
  ASSERT_TRUE(fillWeight({"x", "vector", 1, 1024}, 1, d).ok());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
}

TEST(WeightFillTest, AnUnknownLayoutIsNamed) {
  Bytes bytes(64);
  const Status status = fillWeight({"blk.0.x", "q9_z", 1, 64}, 1, bytes);
  EXPECT_EQ(status.code(), Code::kIncompatible);
  EXPECT_NE(status.message().find("blk.0.x"), std::string::npos);
  EXPECT_NE(status.message().find("q9_z"), std::string::npos);
}

} // namespace
} // namespace g4::engine

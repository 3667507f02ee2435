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

/// Values of a packed matrix of 16 rows, after module/PackedLayout.h's text.
std::vector<float> unpack(const module::PackedLayout &layout, const Bytes &bytes, uint32_t columns) {
  std::vector<float> out;
  const uint32_t supers = columns / layout.superColumns;
  for (uint32_t s = 0; s < supers; ++s) {
    const std::byte *block = bytes.data() + s * layout.superBytes();
    const std::byte *scales = block + 32 + (layout.hasMin ? 32 : 0);
    const std::byte *codes = block + layout.headerBytes();
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t b = 0; b < layout.superColumns / 32; ++b)
        for (uint32_t c = 0; c < 32; ++c) {
          const std::byte *code = codes + b * layout.blockCodeBytes();
          const uint32_t half = c / 16, j = c % 16 / 4, byte = c % 4;
          float q;
          if (layout.bits == 8)
            q = float(int8_t(code[c / 4 * 64 + row * 4 + byte]));
          else
            q = float((uint8_t(code[j * 64 + row * 4 + byte]) >> (4 * half)) &
                      15); // high bits: within 2^bits anyway
          float value = halfToFloat(block + 2 * row) * (q - float(layout.zero));
          if (layout.subBlocks) {
            const uint32_t sub = (b * 32 + c) * layout.subBlocks / layout.superColumns;
            value *= float(int8_t(scales[sub * 16 + row]));
            if (layout.hasMin)
              value -= halfToFloat(block + 32 + 2 * row) *
                       float(uint8_t(scales[(layout.subBlocks + sub) * 16 + row]));
          } else if (layout.hasMin) {
            value += halfToFloat(block + 32 + 2 * row);
          }
          out.push_back(value);
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
  EXPECT_EQ(checked, 8u);
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

TEST(WeightFillTest, TablesHaveFiniteScales) {
  struct {
    const char *type;
    size_t block, scale;
  } formats[] = {{"q4_0", 18, 0}, {"q8_0", 34, 0}, {"q4_k", 144, 0}, {"q4_k", 144, 2}, {"q6_k", 210, 208}};
  for (const auto &format : formats) {
    Bytes bytes(format.block * 20);
    ASSERT_TRUE(fillWeight({"t", std::string("table:") + format.type, 20, 256}, 3, bytes).ok())
        << format.type;
    for (size_t i = 0; i < bytes.size(); i += format.block) {
      const float scale = halfToFloat(bytes.data() + i + format.scale);
      EXPECT_TRUE(scale > 0 && scale < 0.1f) << format.type << " " << scale;
    }
  }
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

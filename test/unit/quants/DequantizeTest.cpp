// Single blocks, their bytes and values worked out by hand from the layouts. OracleTest.cpp has the rest.
#include "compiler/quants/Dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace g4::quants {
namespace {

using gguf::Type;

// Halves that appear below.
constexpr int kOne[] = {0x00, 0x3c}, kTwo[] = {0x00, 0x40}, kHalf[] = {0x00, 0x38};

struct Block {
  std::vector<std::byte> bytes;
  Block &add(int value, int count = 1) {
    bytes.insert(bytes.end(), count, static_cast<std::byte>(value));
    return *this;
  }
  Block &half(const int (&bits)[2]) { return add(bits[0]).add(bits[1]); }
};

std::vector<float> decode(Type type, const Block &block) {
  const gguf::TypeInfo &info = *gguf::typeInfo(static_cast<uint32_t>(type));
  std::vector<float> values(block.bytes.size() / info.blockBytes * info.blockElements, NAN);
  EXPECT_TRUE(dequantize(type, block.bytes, values));
  return values;
}

TEST(DequantizeTest, HalvesOfEveryKindAreExact) {
  EXPECT_EQ(halfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(halfToFloat(0xc000), -2.0f);
  EXPECT_EQ(halfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(halfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(halfToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(halfToFloat(0x0400), 0x1p-14f);
  EXPECT_TRUE(std::signbit(halfToFloat(0x8000)));
  EXPECT_EQ(halfToFloat(0x7c00), INFINITY);
  EXPECT_TRUE(std::isnan(halfToFloat(0x7e00)));
}

TEST(DequantizeTest, Bfloat16IsTheTopHalfOfAFloat) {
  EXPECT_EQ(bfloat16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(bfloat16ToFloat(0xc040), -3.0f);
}

TEST(DequantizeTest, Q4_0HasLowNibblesFirstAndIsCentredAtEight) {
  auto y = decode(Type::kQ4_0, Block().half(kTwo).add(0x9f).add(0x80, 15));
  EXPECT_EQ(y[0], 14.0f);  // (15 - 8) * 2
  EXPECT_EQ(y[16], 2.0f);  // (9 - 8) * 2
  EXPECT_EQ(y[1], -16.0f); // (0 - 8) * 2
  EXPECT_EQ(y[17], 0.0f);
}

TEST(DequantizeTest, Q4_1AddsAMinimum) {
  auto y = decode(Type::kQ4_1, Block().half(kTwo).half(kHalf).add(0x3f, 16));
  EXPECT_EQ(y[5], 30.5f);
  EXPECT_EQ(y[21], 6.5f);
}

TEST(DequantizeTest, Q5_0TakesItsFifthBitsFromAWord) {
  // Bits 0 and 17: elements 0 and 17.
  auto y = decode(Type::kQ5_0, Block().half(kOne).add(0x01).add(0).add(0x02).add(0).add(0x21, 16));
  EXPECT_EQ(y[0], 1.0f);   // 1 + 16 - 16
  EXPECT_EQ(y[1], -15.0f); // 1 - 16
  EXPECT_EQ(y[16], -14.0f);
  EXPECT_EQ(y[17], 2.0f);
}

TEST(DequantizeTest, Q5_1AddsAMinimum) {
  auto y = decode(Type::kQ5_1, Block().half(kOne).half(kHalf).add(0x01).add(0, 2).add(0x80).add(0x21, 16));
  EXPECT_EQ(y[0], 17.5f);
  EXPECT_EQ(y[1], 1.5f);
  EXPECT_EQ(y[16], 2.5f);
  EXPECT_EQ(y[31], 18.5f);
}

TEST(DequantizeTest, Q8_0IsSigned) {
  auto y = decode(Type::kQ8_0, Block().half(kHalf).add(0x80).add(0x7f).add(0xff, 30));
  EXPECT_EQ(y[0], -64.0f);
  EXPECT_EQ(y[1], 63.5f);
  EXPECT_EQ(y[31], -0.5f);
}

TEST(DequantizeTest, Q4_KUnpacksSixBitScalesAndMinimums) {
  // Pair 0: scale 3, minimum 5 in bytes 0 and 4. Pair 4: scale 2 | 1 << 4 (bits 6 and 7 of byte 0), minimum
  // 4 | 2 << 4 (of byte 4).
  Block block;
  block.half(kOne).half(kTwo);
  block.add(0x43).add(0, 3).add(0x85).add(0, 3).add(0x42).add(0, 3); // 12 bytes of pairs
  block.add(0xa7, 32).add(0, 32).add(0x6b, 32).add(0, 32);
  auto y = decode(Type::kQ4_K, block);
  EXPECT_EQ(y[0], 3 * 7 - 2 * 5.0f);
  EXPECT_EQ(y[31], 3 * 7 - 2 * 5.0f);
  EXPECT_EQ(y[32], 0.0f); // pair 1 is 0, 0
  EXPECT_EQ(y[128], 18 * 11 - 2 * 36.0f);
}

TEST(DequantizeTest, Q5_KTakesTheFifthBitOfGroupJFromBitJ) {
  Block block;
  block.half(kOne).half(kTwo);
  block.add(1, 4).add(0, 4).add(1, 4); // scales 1, minimums 0
  block.add(0x05, 32);                 // groups 0 and 2 have the fifth bit
  block.add(0x32, 128);
  auto y = decode(Type::kQ5_K, block);
  EXPECT_EQ(y[0], 18.0f);
  EXPECT_EQ(y[32], 3.0f);
  EXPECT_EQ(y[64], 18.0f);
  EXPECT_EQ(y[96], 3.0f);
  EXPECT_EQ(y[255], 3.0f);
}

TEST(DequantizeTest, Q6_KCombinesNibblesPairsOfBitsAndSignedScales) {
  Block block;
  block.add(0x21, 32).add(0x43, 32).add(0, 64); // low four bits
  block.add(0xe4, 32).add(0, 32);               // 11 10 01 00: quarters 3, 2, 1, 0
  block.add(1, 2).add(0xff, 2).add(2, 2).add(3, 2).add(1, 8);
  block.half(kHalf);
  auto y = decode(Type::kQ6_K, block);
  EXPECT_EQ(y[0], 0.5f * 1 * (1 - 32));
  EXPECT_EQ(y[32], 0.5f * -1 * ((3 | 1 << 4) - 32));
  EXPECT_EQ(y[64], 0.5f * 2 * ((2 | 2 << 4) - 32));
  EXPECT_EQ(y[96], 0.5f * 3 * ((4 | 3 << 4) - 32));
  EXPECT_EQ(y[128], 0.5f * -32);
}

TEST(DequantizeTest, RefusesPartOfABlockAndFormatsItDoesNotKnow) {
  std::vector<std::byte> bytes(34 + 1);
  std::vector<float> values(32);
  EXPECT_FALSE(dequantize(Type::kQ8_0, bytes, values));
  EXPECT_FALSE(dequantize(Type::kQ8_0, std::span(bytes).first(34), std::span(values).first(31)));
  EXPECT_TRUE(dequantize(Type::kQ8_0, std::span(bytes).first(34), values));
  EXPECT_FALSE(dequantize(gguf::Type::kI8, std::span(bytes).first(32), values));
  EXPECT_FALSE(dequantize(static_cast<gguf::Type>(999), std::span(bytes).first(32), values));
}

} // namespace
} // namespace g4::quants

// Single bytes of the packed layout, worked out by hand from runtime/module/PackedLayout.h. What kernels make
// of packed weights is tested with all types in test/conformance/cpu.
#include "compiler/emit/Packer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace g4::emit {
namespace {

using Row = std::vector<std::byte>;

const module::PackedLayout &layout(const char *name) { return *module::packedLayout(name); }

/// Packs `row` as row r of a group, all others padding.
std::vector<int> packRow(const char *name, uint64_t columns, const Row &row, int r) {
  std::array<const std::byte *, 16> rows{};
  rows[r] = row.data();
  std::vector<std::byte> out(layout(name).groupBytes(columns), std::byte{0xEE});
  packGroup(layout(name), columns, rows, out);
  std::vector<int> values;
  for (std::byte b : out)
    values.push_back(int(b));
  return values;
}

/// `bytes` zero bytes with some set.
Row block(size_t bytes, std::initializer_list<std::pair<size_t, int>> set) {
  Row row(bytes);
  for (auto [at, value] : set)
    row[at] = std::byte(value);
  return row;
}

/// The places of all bytes that are not zero, and their values.
std::vector<std::pair<size_t, int>> nonZero(const std::vector<int> &bytes) {
  std::vector<std::pair<size_t, int>> found;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i])
      found.push_back({i, bytes[i]});
  return found;
}
using Places = std::vector<std::pair<size_t, int>>;

TEST(PackerTest, SizesAreThoseOfTheLayout) {
  // 16 rows x 32 columns: a half each, and the codes.
  EXPECT_EQ(layout("q4_0").groupBytes(32), 32u + 256);
  EXPECT_EQ(layout("q4_1").groupBytes(32), 64u + 256);
  EXPECT_EQ(layout("q5_0").groupBytes(32), 32u + 320);
  EXPECT_EQ(layout("q5_1").groupBytes(32), 64u + 320);
  EXPECT_EQ(layout("q8_0").groupBytes(32), 32u + 512);
  EXPECT_EQ(layout("q4_k").groupBytes(256), 64u + 256 + 2048);
  EXPECT_EQ(layout("q5_k").groupBytes(256), 64u + 256 + 2560);
  EXPECT_EQ(layout("q6_k").groupBytes(256), 32u + 256 + 3072);
  EXPECT_EQ(layout("bf16").groupBytes(32), 1024u);
  // Two and three bits; scales with their minima in half a byte each, and as bytes.
  EXPECT_EQ(layout("q2_k").groupBytes(256), 64u + 256 + 1024);
  EXPECT_EQ(layout("q3_k").groupBytes(256), 32u + 256 + 1536);
  // Tables: no half but an exponent; bytes for sixteen columns each, and row scales.
  EXPECT_EQ(layout("iq4_nl").groupBytes(32), 32u + 256);
  EXPECT_EQ(layout("iq4_xs").groupBytes(256), 32u + 128 + 2048);
  EXPECT_EQ(layout("mxfp4").groupBytes(32), 16u + 256);
  EXPECT_EQ(layout("nvfp4").groupBytes(128), 64u + 2 * (64 + 512));
  // One and two bits, and five digits in a byte: 64 vectors in 13.
  EXPECT_EQ(layout("q1_0").groupBytes(128), 32u + 256);
  EXPECT_EQ(layout("q2_0").groupBytes(64), 32u + 256);
  EXPECT_EQ(layout("tq2_0").groupBytes(256), 32u + 1024);
  EXPECT_EQ(layout("tq1_0").groupBytes(256), 32u + 832);
  // Grids: for each of eight blocks the entries' low bytes and side information.
  EXPECT_EQ(layout("iq2_xxs").groupBytes(256), 32u + 8 * 16 * (4 + 4));
  EXPECT_EQ(layout("iq2_xs").groupBytes(256), 32u + 8 * 16 * (4 + 5));
  EXPECT_EQ(layout("iq2_s").groupBytes(256), 32u + 8 * 16 * (4 + 6));
  EXPECT_EQ(layout("iq3_xxs").groupBytes(256), 32u + 8 * 16 * (8 + 4));
  EXPECT_EQ(layout("iq3_s").groupBytes(256), 32u + 8 * 16 * (8 + 6));
  EXPECT_EQ(layout("iq1_s").groupBytes(256), 32u + 8 * 16 * (4 + 2));
  EXPECT_EQ(layout("iq1_m").groupBytes(256), 32u + 8 * 16 * (4 + 3));
  EXPECT_EQ(layout("q4_0").matrixBytes(17, 64), 2u * 2 * 288);
  EXPECT_EQ(module::packedLayout("q8_1"), nullptr);
}

TEST(PackerTest, FourBitCodesPairColumnsSixteenApart) {
  // Scale 0x3c12; column 6 is 5 and column 22 is 9: byte 6 of the codes. Vector 1 (columns 4..7), row 3,
  // byte 2.
  Row row = block(18, {{0, 0x12}, {1, 0x3c}, {2 + 6, 0x95}});
  EXPECT_EQ(nonZero(packRow("q4_0", 32, row, 3)), (Places{{6, 0x12}, {7, 0x3c}, {32 + 64 + 12 + 2, 0x95}}));
}

TEST(PackerTest, MinimaFollowScales) {
  Row row = block(20, {{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  EXPECT_EQ(nonZero(packRow("q4_1", 32, row, 15)), (Places{{30, 1}, {31, 2}, {62, 3}, {63, 4}}));
}

TEST(PackerTest, FifthBitsLieInOneVector) {
  // Bit 21 of qh: column 21 = 16 + 4 * 1 + 1, so h = 1, j = 1, b = 1: bit 5 of byte 1 of the row.
  Row row = block(22, {{2 + 2, 1 << 5}});
  EXPECT_EQ(nonZero(packRow("q5_0", 32, row, 2)), (Places{{32 + 256 + 8 + 1, 1 << 5}}));
}

TEST(PackerTest, BytesKeepTheirSign) {
  Row row = block(34, {{2 + 31, 0x80}});
  EXPECT_EQ(nonZero(packRow("q8_0", 32, row, 0)), (Places{{32 + 64 * 7 + 3, 0x80}}));
}

TEST(PackerTest, SixBitScalesOfKFormatsBecomeBytes) {
  // Sub-block 5's scale is the low nibble of byte 9 and the top bits of byte 1; its minimum the high nibble
  // of byte 9 and the top bits of byte 5.
  Row row = block(144, {{4 + 9, 0x7a}, {4 + 1, 0xc0}, {4 + 5, 0x80}});
  EXPECT_EQ(nonZero(packRow("q4_k", 256, row, 1)),
            (Places{{64 + 16 * 5 + 1, 0x3a}, {64 + 16 * 8 + 16 * 5 + 1, 0x27}}));
}

TEST(PackerTest, SixBitCodesHaveTwoHighBits) {
  // Column 128 + 32 + 5: ql byte 64 + 32 + 5 low nibble, qh byte 32 + 5 bits 2..3. Block 5, column 5: vector
  // 1, byte 1; high plane 0, bits 2..3 of byte 1.
  Row row = block(210, {{64 + 32 + 5, 0x0d}, {128 + 32 + 5, 2 << 2}, {192 + 9, 0xff}});
  size_t codes = 32 + 256 + 5 * 384;
  EXPECT_EQ(nonZero(packRow("q6_k", 256, row, 4)),
            (Places{{32 + 16 * 9 + 4, 0xff}, {codes + 64 + 16 + 1, 0x0d}, {codes + 256 + 16 + 1, 2 << 2}}));
}

TEST(PackerTest, TwoBitCodesOfFourVectorsShareOne) {
  // Column 128 + 32 + 5: byte 32 + 5 of the codes, bits 2..3. Block 5, vector 1: vector 0 of the plane, bits 2..3.
  Row row = block(84, {{9, 0x7a}, {16 + 32 + 5, 2 << 2}});
  EXPECT_EQ(nonZero(packRow("q2_k", 256, row, 3)),
            (Places{{64 + 16 * 9 + 3, 0x7a}, {64 + 256 + 5 * 128 + 4 * 3 + 1, 2 << 2}}));
}

TEST(PackerTest, ThirdBitsLieInOneVector) {
  // Column 32 * 5 + 9: bit 5 of byte 9. Block 5, vector 2, byte 1. All scales are 0 - 32 but the last of sixteen,
  // whose low half is the upper nibble of byte 7 and whose high pair is the top of byte 11.
  Row row = block(110, {{9, 1 << 5}, {96 + 7, 0x30}, {96 + 11, 0x80}});
  auto packed = packRow("q3_k", 256, row, 0);
  EXPECT_EQ(packed[32 + 16 * 14], 0xe0);
  EXPECT_EQ(packed[32 + 16 * 15], 3);
  EXPECT_EQ(packed[32 + 256 + 5 * 192 + 128 + 1], 1 << 2);
}

TEST(PackerTest, BaseThreeDigitsAreFiveToAByteAgain) {
  // Byte 57 is 2 * 27: digit 1 is 2. Column 160 + 16 + 3: vector 44 of the super-block, byte 3, so digit 4 of vector 8:
  // 2 * 1, which is byte 3.
  Row row = block(54, {{32 + 3, 57}, {52, 0x34}, {53, 0x12}});
  EXPECT_EQ(nonZero(packRow("tq1_0", 256, row, 6)), (Places{{12, 0x34}, {13, 0x12}, {32 + 8 * 64 + 4 * 6 + 3, 3}}));
}

TEST(PackerTest, RowScalesStandBeforeTheGroup) {
  std::array<const std::byte *, 16> rows{};
  Row row = block(36, {{1, 0x38}, {4 + 8 + 7, 0x50}}); // column 16 + 8 + 7 is 5
  rows[2] = row.data();
  std::array<float, 16> scales = kNoRowScales;
  scales[2] = 2;
  std::vector<std::byte> out(layout("nvfp4").groupBytes(64));
  packGroup(layout("nvfp4"), 64, rows, out, scales);
  float stored[16];
  std::memcpy(stored, out.data(), 64);
  EXPECT_EQ(stored[1], 1);
  EXPECT_EQ(stored[2], 2);
  EXPECT_EQ(int(out[64 + 16 + 2]), 0x38);
  EXPECT_EQ(int(out[64 + 64 + 64 * 3 + 4 * 2 + 3]), 5 << 4); // columns 16.. are the upper halves
}

TEST(PackerTest, GridEntriesHaveALowByteAndSideInformation) {
  // Entry 9 is the second of block 1: its low byte, its ninth bit, the sign of its first column, the block's scale.
  Row row = block(110, {{2 + 9, 0x5a}, {66 + 1, 1 << 1}, {74 + 4, 1 << 4}, {106, 0x90}});
  size_t at = 32 + (128 + 96); // block 1: 128 bytes of index, 64 of signs, 32 of the rest
  EXPECT_EQ(nonZero(packRow("iq3_s", 256, row, 1)),
            (Places{{at + 4 + 1, 0x5a}, {at + 128 + 4, 1 << 4}, {at + 192 + 2, 1 << 1}, {at + 192 + 3, 9}}));
}

TEST(PackerTest, FloatsAreColumnsOfSixteenRows) {
  Row row = block(64, {{2 * 3, 0x34}, {2 * 3 + 1, 0x12}});
  EXPECT_EQ(nonZero(packRow("f16", 32, row, 9)),
            (Places{{(3 * 16 + 9) * 2, 0x34}, {(3 * 16 + 9) * 2 + 1, 0x12}}));
}

TEST(PackerTest, WideningIsExactAndMultiplies) {
  auto widen = [](const char *name, const Row &row, float factor) {
    float out[1];
    widenRow(layout(name), 1, row.data(), factor, out);
    return out[0];
  };
  EXPECT_EQ(widen("f16", block(2, {{0, 0x01}}), 1.0f), 0x1p-24f); // the smallest half
  EXPECT_EQ(widen("bf16", block(2, {{0, 0x80}, {1, 0xbf}}), 0.5f), -0.5f);
  EXPECT_EQ(widen("f32", block(4, {{3, 0x40}}), 2.0f), 4.0f);
}

} // namespace
} // namespace g4::emit

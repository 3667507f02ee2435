// Single bytes of the packed layout, worked out by hand from runtime/module/PackedLayout.h. What kernels make
// of packed weights is tested with all types in test/conformance/cpu.
#include "compiler/emit/Packer.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(layout("q4_0").matrixBytes(17, 64), 2u * 2 * 288);
  EXPECT_EQ(module::packedLayout("q2_k"), nullptr);
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

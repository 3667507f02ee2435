// The head's kernel: its logits, capped and not, and the largest of each tile.
#include "compiler/emit/Packer.h"
#include "test/conformance/cpu/KernelHarness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

namespace g4::conformance {
namespace {

// Three tiles; the last one ends in eight outputs that pad the last group.
constexpr int64_t kOutputs = 88, kTile = 32, kPadded = 96, kColumns = 64;
// One for each row: a whole block of four and a part of one.
constexpr std::array kInputs = {1.0f, -1.0f, 2.0f, 0.5f, -3.0f};
constexpr int64_t kRows = kInputs.size(), kItems = 2 * (kPadded / kTile);
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string specOf(const char *softcap) {
  return std::string(
             "#exec.linear<columns = 64, int8 = false, parts = [<element = f32, rows = 88, columns = 64>], "
             "epilogue = logits, tile = 32, rows_per_item = 4") +
         softcap + ">";
}

struct Logits {
  std::vector<float> out, maxima;
};

/// Logits of which row r, output n is values[n] * kInputs[r].
Logits run(module::KernelFn kernel, const std::vector<float> &values) {
  std::vector<float> weights(kOutputs * kColumns), x(kRows * kColumns);
  for (int64_t n = 0; n < kOutputs; ++n)
    weights[n * kColumns] = values[n];
  for (int64_t r = 0; r < kRows; ++r)
    x[r * kColumns] = kInputs[r];
  const module::PackedLayout &layout = *module::packedLayout("f32");
  std::vector<std::byte> packed(layout.matrixBytes(kOutputs, kColumns));
  const uint64_t groupBytes = layout.groupBytes(kColumns);
  for (int64_t g = 0; g < kPadded / 16; ++g) {
    std::array<const std::byte *, 16> rows{};
    for (int64_t r = 0; r < 16 && 16 * g + r < kOutputs; ++r)
      rows[r] = reinterpret_cast<const std::byte *>(&weights[(16 * g + r) * kColumns]);
    emit::packGroup(layout, kColumns, rows, std::span(packed).subspan(g * groupBytes, groupBytes));
  }
  constexpr float kUntouched = 12345;
  Logits logits{std::vector<float>((kRows + 1) * kPadded, kUntouched),
                std::vector<float>((kRows + 1) * (kPadded / kTile), kUntouched)};
  int32_t count = kRows;
  void *buffers[] = {&count, x.data(), packed.data(), logits.out.data(), logits.maxima.data()};
  for (int64_t item = kItems; item-- > 0;) // any thread may do any item
    kernel(buffers, item, item + 1);
  EXPECT_EQ(logits.out[kRows * kPadded], kUntouched);
  EXPECT_EQ(logits.maxima[kRows * (kPadded / kTile)], kUntouched);
  logits.out.resize(kRows * kPadded);
  logits.maxima.resize(kRows * (kPadded / kTile));
  return logits;
}

std::vector<float> maximaOf(const std::vector<float> &out) {
  std::vector<float> maxima;
  for (int64_t i = 0; i < int64_t(out.size()); i += kTile) {
    maxima.push_back(-kInf);
    for (int64_t j = i; j < i + kTile; ++j)
      maxima.back() = std::max(maxima.back(), std::isnan(out[j]) ? kInf : out[j]);
  }
  return maxima;
}

TEST(LogitsTest, MaximaAreThoseOfTheTiles) {
  for (const InstructionSet &r : instructionSets()) {
    SCOPED_TRACE(r.name);
    auto kernels = compileKernels({{"plain", specOf("")}, {"capped", specOf(", softcap = 30.0 : f32")}}, r);
    ASSERT_TRUE(kernels);
    std::vector<float> values(kOutputs);
    for (int64_t n = 0; n < kOutputs; ++n)
      values[n] = float((n * 37) % 89) - 100; // the padding's zeros are the largest of the last tile, or not

    const Logits plain = run(kernels->find("plain"), values);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t n = 0; n < kOutputs; ++n)
        ASSERT_EQ(plain.out[row * kPadded + n], values[n] * kInputs[row]);
    EXPECT_EQ(plain.maxima, maximaOf(plain.out));

    const Logits capped = run(kernels->find("capped"), values);
    for (size_t i = 0; i < capped.out.size(); ++i) // tanh is a polynomial of float32
      ASSERT_NEAR(capped.out[i], 30 * std::tanh(plain.out[i] / 30), 1e-4);
    EXPECT_EQ(capped.maxima, maximaOf(capped.out));
  }
}

TEST(LogitsTest, InfinitiesAndNansShowInTheirTiles) {
  for (const InstructionSet &r : instructionSets()) {
    SCOPED_TRACE(r.name);
    auto kernels = compileKernels({{"plain", specOf("")}}, r);
    ASSERT_TRUE(kernels);
    for (int64_t at : {0, 31, 32, 47, 87})
      for (float value : {kInf, -kInf, float(NAN)}) {
        std::vector<float> values(kOutputs, 5);
        values[at] = value;
        const Logits logits = run(kernels->find("plain"), values);
        EXPECT_EQ(logits.maxima, maximaOf(logits.out)) << value << " at " << at;
        for (int64_t row = 0; row < kRows; ++row)
          EXPECT_EQ(logits.maxima[row * (kPadded / kTile) + at / kTile] == kInf, !(value * kInputs[row] < 0))
              << value << " at " << at << ", row " << row;
      }
    std::vector<float> values(kOutputs, 5);
    std::fill_n(values.begin(), kTile, -kInf);
    EXPECT_EQ(run(kernels->find("plain"), values).maxima[0], -kInf);
  }
}

} // namespace
} // namespace g4::conformance

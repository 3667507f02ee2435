// #exec.linear of every packed type against the blocks' own meaning: packer, body, dot products and code
// generator at once.
#include "compiler/emit/Packer.h"
#include "dialects/gguf/GgufDialect.h"
#include "test/conformance/cpu/Blocks.h"
#include "test/conformance/cpu/KernelHarness.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <span>

namespace g4::conformance {
namespace {

constexpr int64_t kOutputs = 40, kPadded = 48; // two and a half groups of sixteen rows
constexpr int64_t kTile = 16;
// A block of rows takes every tile of the schedules, of eight, four and one; one more row is a block that reads packed weights.
constexpr int64_t kRowsPerItem = 13, kMaxRows = 14;

/// Two super-blocks, or blocks for one panel of eight times 32 columns and half of another.
int64_t columnsOf(const Format &f) { return f.elements == 256 ? 512 : f.elements == 1 ? 96 : 384; }

bool hasRowScales(const Format &f) { return std::string(f.name) == "nvfp4"; }

std::string specOf(const Format &f, bool int8) {
  std::string columns = std::to_string(columnsOf(f));
  return "#exec.linear<columns = " + columns + ", int8 = " + (int8 ? "true" : "false") +
         ", parts = [<element = " + f.name + ", rows = " + std::to_string(kOutputs) +
         ", columns = " + columns + ">], epilogue = store, tile = " + std::to_string(kTile) +
         ", rows_per_item = " + std::to_string(kRowsPerItem) + ">";
}

/// Quantised rows of activations as a kernel reads them, and what they stand for.
struct Input {
  int64_t columns;
  std::vector<float> x;      ///< [rows][columns]
  std::vector<int8_t> q;     ///< [rows][columns]
  std::vector<float> scale;  ///< [rows][columns / 32]
  std::vector<int32_t> sums; ///< [rows][columns / 16]

  Input(int64_t columns, std::mt19937 &rng) : columns(columns), x(kMaxRows * columns), q(x.size()) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < std::ssize(x); ++i) {
      int64_t row = i / columns;
      x[i] = normal(rng) * (row == 1 ? 1e4f : 1);
      // Rows of one sign, or two in turn, drive the sums of products to their ends.
      q[i] = row == 0 ? 127 : row == 1 ? -127 : row == 2 ? (i % 2 ? 127 : -127) : int(rng() % 255) - 127;
    }
    for (int64_t i = 0; i < std::ssize(x) / 32; ++i)
      scale.push_back(i % 7 == 3 ? 0 : std::ldexp(1 + (rng() % 1024) / 1024.0f, int(rng() % 12) - 10));
    for (int64_t i = 0; i < std::ssize(x); i += 16)
      sums.push_back(std::accumulate(&q[i], &q[i] + 16, 0));
  }
};

struct Case {
  const Format *format;
  std::vector<std::byte> stored, packed;
  std::vector<float> rowScales = std::vector<float>(kPadded, 1);
  explicit Case(const Format &f, Scales scales, std::mt19937 &rng) : format(&f) {
    stored = randomRows(f, kOutputs, columnsOf(f), scales, rng);
    if (hasRowScales(f))
      for (float &s : rowScales)
        s = std::ldexp(1 + float(rng() % 1024) / 1000, int(rng() % 8) - 4);
    packed = pack();
  }
  int64_t rowBytes() const { return columnsOf(*format) / format->elements * format->bytes; }
  std::vector<std::byte> pack() const {
    const module::PackedLayout &layout = *module::packedLayout(format->name);
    std::vector<std::byte> result(layout.matrixBytes(kOutputs, columnsOf(*format)), std::byte{0xAA});
    uint64_t groupBytes = layout.groupBytes(columnsOf(*format));
    for (int64_t g = 0; g < kPadded / 16; ++g) {
      std::array<const std::byte *, 16> rows{};
      for (int64_t r = 0; r < 16 && 16 * g + r < kOutputs; ++r)
        rows[r] = stored.data() + (16 * g + r) * rowBytes();
      std::array<float, 16> ofGroup;
      std::copy_n(&rowScales[16 * g], 16, ofGroup.begin());
      emit::packGroup(layout, columnsOf(*format), rows, std::span(result).subspan(g * groupBytes, groupBytes), ofGroup);
    }
    return result;
  }
  /// Row n, times its scale.
  std::vector<Weight> decode(int64_t n) const {
    auto weights = decodeRow(*format, stored.data() + n * rowBytes(), columnsOf(*format));
    for (Weight &w : weights)
      w.scale *= rowScales[n];
    return weights;
  }
};

/// Work items for `rows` rows.
int64_t itemsFor(int64_t rows) { return (rows + kRowsPerItem - 1) / kRowsPerItem * (kPadded / kTile); }

/// Runs items [begin, end); results of `rows` rows without the padding, which for the first row goes to `padding`.
/// Fails if anything behind them was written.
std::vector<float> run(module::KernelFn kernel, const Case &c, const Input &in, bool int8, int64_t rows,
                       std::vector<std::pair<int64_t, int64_t>> items, std::vector<float> *padding = nullptr) {
  int32_t count = rows;
  constexpr float kUntouched = 12345;
  std::vector<float> out((rows + 1) * kPadded, kUntouched);
  auto p = [](auto &v) { return const_cast<void *>(static_cast<const void *>(v.data())); };
  std::vector<void *> buffers{&count};
  if (int8)
    buffers.insert(buffers.end(), {p(in.q), p(in.scale), p(in.sums)});
  else
    buffers.push_back(p(in.x));
  buffers.insert(buffers.end(), {p(c.packed), p(out)});
  for (auto [begin, end] : items)
    kernel(buffers.data(), begin, end);
  for (int64_t i = rows * kPadded; i < std::ssize(out); ++i)
    EXPECT_EQ(out[i], kUntouched) << "written behind row " << rows;
  if (padding)
    padding->assign(&out[kOutputs], &out[kPadded]);
  std::vector<float> result;
  for (int64_t r = 0; r < rows; ++r)
    result.insert(result.end(), &out[r * kPadded], &out[r * kPadded] + kOutputs);
  return result;
}

struct Expected {
  std::vector<double> value, bound;
};

/// f32: each weight is at most two roundings from its value (scales and minima are exact products of a half
/// and at most 8 bits, but those with a row scale; the code is multiplied and the minimum added in one step), then there
/// is one fused step a column: gamma(columns + 2) * sum |w x|.
Expected exactF32(const Case &c, const Input &in) {
  Expected e;
  int64_t columns = in.columns;
  for (int64_t r = 0; r < kMaxRows; ++r)
    for (int64_t n = 0; n < kOutputs; ++n) {
      auto w = c.decode(n);
      double sum = 0, size = 0;
      for (int64_t k = 0; k < columns; ++k) {
        double t = w[k].value() * in.x[r * columns + k];
        sum += t;
        size += std::fabs(t);
      }
      e.value.push_back(sum);
      e.bound.push_back(gamma(columns + 2) * size);
    }
  return e;
}

/// int8: sums of codes are exact (below 2^24 in every block). A block adds scale * sum for each of its one or
/// two sub-blocks, and min * sum for each: at most four roundings each before the accumulation, whose steps are one
/// to three a block.
Expected exactInt8(const Case &c, const Input &in) {
  Expected e;
  int64_t columns = in.columns;
  for (int64_t r = 0; r < kMaxRows; ++r)
    for (int64_t n = 0; n < kOutputs; ++n) {
      auto w = c.decode(n);
      double sum = 0, size = 0;
      for (int64_t b = 0; b < columns / 32; ++b) {
        double scale = in.scale[r * columns / 32 + b], minima = 0;
        for (int64_t half = 0; half < 2; ++half) {
          int64_t first = 32 * b + 16 * half;
          double products = 0; // exact: at most 24 bits of a weight, 7 of an activation, 16 of them
          for (int64_t k = first; k < first + 16; ++k)
            products += w[k].scale * w[k].code * in.q[r * columns + k];
          sum += products * scale;
          size += std::fabs(products * scale);
          double m = w[first].min * in.sums[(r * columns + first) / 16];
          minima += m;
          size += std::fabs(m * scale);
        }
        sum += minima * scale;
      }
      e.value.push_back(sum);
      e.bound.push_back(gamma(3 * (columns / 32) + 4) * size);
    }
  return e;
}

class LinearTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::vector<std::pair<std::string, std::string>> specs;
    for (const Format &f : kFormats) {
      specs.push_back({std::string(f.name) + "_f32", specOf(f, false)});
      if (!f.isFloat)
        specs.push_back({std::string(f.name) + "_int8", specOf(f, true)});
    }
    for (const InstructionSet &r : instructionSets())
      kernels[r.name] = compileKernels(specs, r);
  }
  static void TearDownTestSuite() { kernels.clear(); }

  static module::KernelFn find(const InstructionSet &r, const Format &f, bool int8) {
    const auto &k = kernels[r.name];
    module::KernelFn fn = k ? k->find(std::string(f.name) + (int8 ? "_int8" : "_f32")) : nullptr;
    EXPECT_TRUE(fn) << f.name;
    return fn;
  }

  /// Compares one type on every instruction set, for 1 to 14 rows.
  static void check(const Format &f, bool int8) {
    SCOPED_TRACE(std::string(f.name) + (int8 ? " int8" : " f32"));
    std::mt19937 rng(7);
    Input in(columnsOf(f), rng);
    Case c(f, Scales::kAny, rng);
    Expected want = int8 ? exactInt8(c, in) : exactF32(c, in);
    std::vector<float> all;
    for (const InstructionSet &r : instructionSets()) {
      SCOPED_TRACE(r.name);
      module::KernelFn kernel = find(r, f, int8);
      ASSERT_TRUE(kernel);
      for (int64_t rows = 1; rows <= kMaxRows; ++rows) {
        auto got = run(kernel, c, in, int8, rows, {{0, itemsFor(rows)}});
        if (rows == 1)
          for (int64_t n = 0; n < kOutputs; ++n)
            ASSERT_TRUE(std::isfinite(got[n])) << n;
        Expected part{{want.value.begin(), want.value.begin() + got.size()},
                      {want.bound.begin(), want.bound.begin() + got.size()}};
        ASSERT_EQ(firstDifference(got, part.value, part.bound), "") << rows << " rows";
        // One order of accumulation, whatever the instruction set and the number of rows: the same bits.
        if (rows == kMaxRows && all.empty())
          all = got;
        if (!all.empty())
          ASSERT_EQ(std::memcmp(got.data(), all.data(), got.size() * sizeof(float)), 0)
              << rows << " rows: other bits";
      }
    }
    ASSERT_EQ(all.size(), size_t(kMaxRows * kOutputs));
  }

  static std::map<std::string, std::unique_ptr<Kernels>> kernels;
};
std::map<std::string, std::unique_ptr<Kernels>> LinearTest::kernels;

TEST(Formats, AreAllThatMatricesMayHave) {
  std::set<std::string> here, layouts, elements;
  for (const Format &f : kFormats)
    here.insert(f.name);
  for (const module::PackedLayout &layout : module::kPackedLayouts)
    layouts.insert(layout.name);
  for (uint32_t number = 0; number <= gguf::getMaxEnumValForElementType(); ++number)
    if (auto type = gguf::symbolizeElementType(number))
      elements.insert(gguf::stringifyElementType(*type).str());
  EXPECT_EQ(here, elements);
  EXPECT_EQ(layouts, elements);
}

TEST_F(LinearTest, EveryTypeWithF32ActivationsIsWithinItsBound) {
  for (const Format &f : kFormats)
    check(f, false);
}

TEST_F(LinearTest, EveryQuantisedTypeWithInt8ActivationsIsWithinItsBound) {
  for (const Format &f : kFormats)
    if (!f.isFloat)
      check(f, true);
}

TEST_F(LinearTest, EachItemWritesItsTileAndNoOther) {
  std::mt19937 rng(8);
  const Format &f = kFormats[3];
  Input in(columnsOf(f), rng);
  Case c(f, Scales::kModerate, rng);
  module::KernelFn kernel = find(instructionSets().front(), f, true);
  ASSERT_TRUE(kernel);
  auto whole = run(kernel, c, in, true, kMaxRows, {{0, itemsFor(kMaxRows)}});
  std::vector<std::pair<int64_t, int64_t>> single, ragged{{4, 6}, {0, 2}, {2, 4}}; // of six
  for (int64_t i = itemsFor(kMaxRows); i-- > 0;)
    single.push_back({i, i + 1});
  EXPECT_EQ(run(kernel, c, in, true, kMaxRows, single), whole);
  EXPECT_EQ(run(kernel, c, in, true, kMaxRows, ragged), whole);
  EXPECT_NE(run(kernel, c, in, true, kMaxRows, {{0, itemsFor(kMaxRows) - 1}}), whole)
      << "the last item does nothing";
}

/// The comparison above refuses a kernel that reads one bit of one code wrong, for every type and both forms.
TEST_F(LinearTest, TheComparisonRefusesOneWrongBit) {
  for (const Format &f : kFormats) {
    if (f.isFloat)
      continue;
    for (bool int8 : {false, true}) {
      SCOPED_TRACE(std::string(f.name) + (int8 ? " int8" : " f32"));
      std::mt19937 rng(9);
      Input in(columnsOf(f), rng);
      for (float &s : in.scale) // a scale of zero hides its block
        s = s ? s : 1;
      Case c(f, Scales::kModerate, rng);
      Expected want = int8 ? exactInt8(c, in) : exactF32(c, in);
      module::KernelFn kernel = find(instructionSets().front(), f, int8);
      ASSERT_TRUE(kernel);
      ASSERT_EQ(firstDifference(run(kernel, c, in, int8, kMaxRows, {{0, itemsFor(kMaxRows)}}), want.value,
                                want.bound),
                "");
      const module::PackedLayout &layout = *module::packedLayout(f.name);
      // Row 5 of the second group, column 2 of the second super-block's first block: its lowest bit.
      size_t at = layout.groupBytes(in.columns) + layout.groupHeaderBytes() + layout.superBytes() +
                  layout.headerBytes() + 4 * 5 + 2;
      c.packed[at] ^= std::byte{1};
      EXPECT_NE(firstDifference(run(kernel, c, in, int8, kMaxRows, {{0, itemsFor(kMaxRows)}}), want.value,
                                want.bound),
                "");
    }
  }
}

TEST_F(LinearTest, RowsThatPadTheLastGroupAreZero) {
  for (const Format &f : kFormats) {
    SCOPED_TRACE(f.name);
    std::mt19937 rng(10);
    Input in(columnsOf(f), rng);
    Case c(f, Scales::kAny, rng);
    module::KernelFn kernel = find(instructionSets().front(), f, false);
    ASSERT_TRUE(kernel);
    std::vector<float> padding;
    run(kernel, c, in, false, 1, {{0, itemsFor(1)}}, &padding);
    EXPECT_EQ(padding, std::vector<float>(kPadded - kOutputs, 0.0f));
  }
}

} // namespace
} // namespace g4::conformance

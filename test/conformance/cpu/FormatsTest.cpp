// Every type in every place that a matrix may have, with the blocks of test/data/formats, whose values are gguf-py's (of
// q1_0 and q2_0, which it lacks, those of the formula in docs/formats.md).
#include "compiler/emit/Packer.h"
#include "compiler/import/gguf/Gguf.h"
#include "compiler/quants/Dequantize.h"
#include "dialects/exec/Signature.h"
#include "test/conformance/cpu/KernelHarness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <span>

namespace g4::conformance {
namespace {

/// A matrix of one type.
struct Matrix {
  const module::PackedLayout *layout;
  int64_t rows, columns, rowBytes;
  std::vector<std::byte> stored;
  std::vector<float> values; ///< [rows][columns], the reference's

  std::string attribute() const {
    return std::string("<element = ") + layout->name + ", rows = " + std::to_string(rows) +
           ", columns = " + std::to_string(columns) + ">";
  }
  const std::byte *row(int64_t r) const { return stored.data() + r * rowBytes; }
  /// Rows [first, first + n) packed.
  std::vector<std::byte> pack(int64_t first, int64_t n) const {
    std::vector<std::byte> out(layout->matrixBytes(n, columns));
    uint64_t groupBytes = layout->groupBytes(columns);
    for (int64_t g = 0; g < (n + 15) / 16; ++g) {
      std::array<const std::byte *, 16> rows{};
      for (int64_t r = 0; r < 16 && 16 * g + r < n; ++r)
        rows[r] = row(first + 16 * g + r);
      emit::packGroup(*layout, columns, rows, std::span(out).subspan(g * groupBytes, groupBytes));
    }
    return out;
  }
};

template <class T> void *pointer(const std::vector<T> &v) { return const_cast<T *>(v.data()); }

/// As many rows as fit, of two blocks each, so that every row begins in the middle of something.
std::vector<Matrix> readMatrices() {
  std::vector<Matrix> result;
  auto file = gguf::File::open(G4_TEST_DATA "/formats/formats.gguf", {});
  if (!file.ok())
    return result;
  for (const module::PackedLayout &layout : module::kPackedLayouts) {
    const gguf::TypeInfo &type = *gguf::typeInfoByName(layout.name);
    const gguf::Tensor *blocks = (*file)->findTensor(std::string(layout.name) + ".blocks");
    const gguf::Tensor *values = (*file)->findTensor(std::string(layout.name) + ".values");
    if (!blocks || !values)
      return {};
    int64_t perRow = type.blockElements == 1 ? 32 : 2;
    Matrix m{&layout, int64_t(blocks->rows()) / perRow, perRow * type.blockElements, perRow * type.blockBytes, {}, {}};
    auto bytes = (*file)->data(*blocks);
    m.stored.assign(bytes.begin(), bytes.begin() + m.rows * m.rowBytes);
    m.values.resize(m.rows * m.columns);
    std::memcpy(m.values.data(), (*file)->data(*values).data(), m.values.size() * sizeof(float));
    result.push_back(std::move(m));
  }
  return result;
}

std::string embedSpec(const Matrix &m) {
  return "#exec.row_kernel<row = <hidden = " + std::to_string(m.columns) +
         ", int8 = false, eps = 1.0e-6 : f32, source = embed, add = none, scaled = false, store = true, embed = " +
         m.attribute() + ", embedScale = 1.0 : f32>>";
}

constexpr int64_t kWidth = 32; // of a layer's part of a table row

std::string tableSpec(const Matrix &m) {
  std::string outputs = std::to_string(m.columns);
  return "#exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = " + outputs +
         ", columns = 32>], epilogue = per_layer, tile = 32, rows_per_item = 4, perLayer = <width = 32, firstLayer = 0, "
         "table = " + m.attribute() + ", projectionScale = 1.0 : f32, tableScale = 1.0 : f32, combineScale = 1.0 : f32, "
         "eps = 1.0e-6 : f32>>";
}

std::string headSpec(const Matrix &m) {
  return "#exec.linear<columns = " + std::to_string(m.columns) + ", int8 = false, parts = [" + m.attribute() +
         "], epilogue = store, tile = 16, rows_per_item = 4>";
}

/// Two experts, the matrix and the matrix again with its rows in turned order.
constexpr int64_t kExpertRows = 16;
std::string expertsSpec(const Matrix &m) {
  bool int8 = !m.layout->isFloat;
  return "#exec.experts<experts = 2, used = 1, tile_rows = 8, int8 = " + std::string(int8 ? "true" : "false") +
         ", parts = [<element = " + m.layout->name + ", rows = 32, columns = " + std::to_string(m.columns) +
         ">], tile = 16>";
}

class FormatsTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    matrices = readMatrices();
    for (const InstructionSet &r : instructionSets()) {
      bool first = kernels.empty();
      std::vector<std::pair<std::string, std::string>> specs;
      for (const Matrix &m : matrices) {
        std::string name = m.layout->name;
        specs.push_back({name + "_embed", embedSpec(m)});
        if (!first) // the rest is the same loops around what LinearTest compares on every instruction set
          continue;
        specs.push_back({name + "_table", tableSpec(m)});
        specs.push_back({name + "_head", headSpec(m)});
        specs.push_back({name + "_experts", expertsSpec(m)});
      }
      kernels.push_back(compileKernels(specs, r));
    }
  }
  static void TearDownTestSuite() { kernels.clear(); }
  void SetUp() override {
    ASSERT_EQ(matrices.size(), std::size(module::kPackedLayouts)) << "test/data/formats";
    ASSERT_TRUE(kernels[0]);
  }

  static std::vector<Matrix> matrices;
  static std::vector<std::unique_ptr<Kernels>> kernels; ///< by instruction set
};
std::vector<Matrix> FormatsTest::matrices;
std::vector<std::unique_ptr<Kernels>> FormatsTest::kernels;

/// Where two lists of values differ, in words; NaN is never equal.
std::string differs(const std::vector<float> &got, const std::vector<float> &want) {
  return firstDifference(got, {want.begin(), want.end()}, std::vector<double>(want.size(), 0));
}

std::vector<float> embed(const Kernels &kernels, const Matrix &m, const std::vector<std::byte> &packed) {
  std::vector<int32_t> count{int32_t(m.rows)}, map, tokens;
  for (int64_t r = 0; r < m.rows; ++r) {
    map.push_back(int32_t(m.rows - 1 - r));
    tokens.push_back(int32_t(m.rows - 1 - r));
  }
  std::vector<float> out(m.rows * m.columns);
  std::vector<void *> buffers{pointer(count), pointer(map), pointer(tokens), pointer(packed), pointer(out)};
  kernels.find(std::string(m.layout->name) + "_embed")(buffers.data(), 0, (m.rows + 3) / 4);
  return out;
}

/// A code times a scale fits in a float's 24 bits, and adding a minimum is one rounding: so equal, not close.
TEST_F(FormatsTest, EmbeddingsAreTheReferencesValuesBitForBit) {
  for (const Matrix &m : matrices)
    for (auto &k : kernels)
      EXPECT_EQ(differs(embed(*k, m, m.pack(0, m.rows)), m.values), "") << m.layout->name;
}

std::vector<float> table(const Kernels &kernels, const Matrix &m, const std::vector<std::byte> &stored) {
  // A projection of zeros, so that what is left of norm(projection) + table is the table.
  std::vector<int32_t> count{int32_t(m.rows)}, map, tokens;
  for (int64_t r = 0; r < m.rows; ++r) {
    map.push_back(int32_t(m.rows - 1 - r));
    tokens.push_back(int32_t(m.rows - 1 - r));
  }
  std::vector<float> x(m.rows * 32), w((m.columns + 15) / 16 * 16 * 32), norm(kWidth, 1), out(m.rows * m.columns);
  std::vector<void *> buffers{pointer(count), pointer(x),      pointer(w),    pointer(map),
                              pointer(tokens), pointer(stored), pointer(norm), pointer(out)};
  kernels.find(std::string(m.layout->name) + "_table")(buffers.data(), 0, (m.rows + 3) / 4 * (m.columns / kWidth));
  return out;
}

TEST_F(FormatsTest, TablesAreTheReferencesValuesBitForBit) {
  for (const Matrix &m : matrices) {
    std::vector<std::byte> stored = m.stored;
    std::vector<float> want = m.values;
    if (m.layout->groupHeaderBytes()) { // each row's scale follows it
      stored.clear();
      for (int64_t r = 0; r < m.rows; ++r) {
        float scale = std::ldexp(1.0f, int(r % 5) - 2);
        stored.insert(stored.end(), m.row(r), m.row(r) + m.rowBytes);
        auto bytes = std::as_bytes(std::span(&scale, 1));
        stored.insert(stored.end(), bytes.begin(), bytes.end());
        for (int64_t c = 0; c < m.columns; ++c)
          want[r * m.columns + c] *= scale;
      }
    }
    EXPECT_EQ(differs(table(*kernels[0], m, stored), want), "") << m.layout->name;
  }
}

/// Activations, their int8 form as kernels make it, and the largest error that one has in it.
struct Input {
  std::vector<float> x, scale;
  std::vector<int8_t> q;
  std::vector<int32_t> sums;

  Input(int64_t count, std::mt19937 &rng) : x(count), q(count) {
    std::normal_distribution<float> normal;
    for (float &v : x)
      v = normal(rng);
    for (int64_t b = 0; b < count; b += 32) {
      float largest = 0;
      for (int64_t i = b; i < b + 32; ++i)
        largest = std::max(largest, std::fabs(x[i]));
      scale.push_back(largest / 127);
      for (int64_t i = b; i < b + 32; ++i)
        q[i] = int8_t(std::nearbyint(x[i] * (127 / largest)));
      for (int64_t i : {b, b + 16})
        sums.push_back(std::accumulate(&q[i], &q[i] + 16, 0));
    }
  }
};

/// Whether sums of products with a row, and scaled sums of its codes, stay within the range of floats.
bool isModerate(const Matrix &m, int64_t row) {
  return m.layout->isFloat || std::all_of(&m.values[row * m.columns], &m.values[(row + 1) * m.columns], [](float w) { return std::fabs(w) < 0x1p100f; });
}

/// f32 activations: within 1e-5 of sum |w x|.
TEST_F(FormatsTest, HeadsAreWithinTheirBound) {
  for (const Matrix &m : matrices) {
    SCOPED_TRACE(m.layout->name);
    std::mt19937 rng(3);
    Input in(m.columns, rng);
    int64_t padded = (m.rows + 15) / 16 * 16;
    std::vector<int32_t> count{1};
    std::vector<float> out(padded);
    auto packed = m.pack(0, m.rows);
    std::vector<void *> buffers{pointer(count), pointer(in.x), pointer(packed), pointer(out)};
    auto runKernel = [&] {
      kernels[0]->find(std::string(m.layout->name) + "_head")(buffers.data(), 0, padded / 16);
      std::vector<float> got;
      for (int64_t r = 0; r < m.rows; ++r)
        if (isModerate(m, r))
          got.push_back(out[r]);
      return got;
    };
    std::vector<double> want, bound;
    for (int64_t r = 0; r < m.rows; ++r) {
      if (!isModerate(m, r))
        continue;
      double sum = 0, size = 0;
      for (int64_t c = 0; c < m.columns; ++c) {
        sum += double(m.values[r * m.columns + c]) * in.x[c];
        size += std::fabs(double(m.values[r * m.columns + c]) * in.x[c]);
      }
      want.push_back(sum);
      bound.push_back(1e-5 * size);
    }
    ASSERT_GT(want.size(), 1u);
    EXPECT_EQ(firstDifference(runKernel(), want, bound), "");
    in.x[5] += 1; // and would not let another input's product pass
    EXPECT_NE(firstDifference(runKernel(), want, bound), "");
  }
}

/// Products of the experts' kernels, what they should be, and how far off they may be.
struct Products {
  std::vector<float> got;
  std::vector<double> want, bound, length; ///< length: of the matrix's row, times the expert's weight
};

/// int8 activations: each is off by at most half its block's scale, so a result by at most half the sum of scale |w|;
/// that sum itself is rounded as LinearTest's, and what a minimum hides of a block's true sizes is in there 129 times:
/// |scale code| + |minimum| <= 129 max |w| where codes of at most 31 differ within a sub-block.
Products expertProducts(const Kernels &kernels, const Matrix &m, unsigned seed) {
  std::mt19937 rng(seed);
  constexpr int64_t kPairs = 3;
  bool int8 = !m.layout->isFloat;
  Input in(kPairs * m.columns, rng);
  auto row = [&](int64_t expert, int64_t r) { return (expert ? m.rows - 1 - r : r) % m.rows; };
  std::vector<std::byte> packed;
  for (int64_t e = 0; e < 2; ++e) {
    Matrix expert = m;
    expert.stored.clear();
    for (int64_t r = 0; r < kExpertRows; ++r) {
      int64_t from = row(e, r % m.rows);
      expert.stored.insert(expert.stored.end(), m.row(from), m.row(from) + m.rowBytes);
    }
    auto bytes = expert.pack(0, kExpertRows);
    packed.insert(packed.end(), bytes.begin(), bytes.end());
  }
  // Pair 1 chose expert 0, pairs 0 and 2 expert 1.
  std::vector<int32_t> count{kPairs}, order{1, 0, 2}, tiles{2, 0, 0, 1, 1, 1, 2};
  std::vector<float> weights{0.5f, 1, 2}, out(kPairs * kExpertRows);
  std::vector<void *> buffers{pointer(count), pointer(order), pointer(tiles)};
  if (int8)
    buffers.insert(buffers.end(), {pointer(in.q), pointer(in.scale), pointer(in.sums)});
  else
    buffers.push_back(pointer(in.x));
  buffers.insert(buffers.end(), {pointer(packed), pointer(weights), pointer(out)});
  kernels.find(std::string(m.layout->name) + "_experts")(buffers.data(), 0, kPairs);
  Products result;
  for (int64_t p = 0; p < kPairs; ++p)
    for (int64_t r = 0; r < kExpertRows; ++r) {
      int64_t from = row(p != 1, r % m.rows);
      if (!isModerate(m, from))
        continue;
      double sum = 0, quantised = 0, size = 0, squares = 0;
      for (int64_t b = 0; b < m.columns / 32; ++b) {
        double absolute = 0, largest = 0;
        for (int64_t c = 32 * b; c < 32 * b + 32; ++c) {
          double w = m.values[from * m.columns + c], x = in.x[p * m.columns + c];
          sum += w * x;
          size += std::fabs(w * x);
          squares += w * w;
          absolute += std::fabs(w);
          largest = std::max(largest, std::fabs(w));
        }
        double scale = in.scale[p * m.columns / 32 + b];
        quantised += scale / 2 * absolute;
        size += m.layout->hasMin ? 129 * 32 * largest * 127 * scale : 0;
      }
      result.got.push_back(out[p * kExpertRows + r]);
      result.want.push_back(weights[p] * sum);
      result.bound.push_back(weights[p] * ((int8 ? quantised * (1 + 1e-6) : 0) + gamma(m.columns + 8) * size));
      result.length.push_back(weights[p] * std::sqrt(squares));
    }
  return result;
}

TEST_F(FormatsTest, ExpertsAreWithinTheirBound) {
  for (const Matrix &m : matrices) {
    SCOPED_TRACE(m.layout->name);
    Products products = expertProducts(*kernels[0], m, 4);
    ASSERT_GE(products.got.size(), size_t(3 * kExpertRows / 2));
    EXPECT_EQ(firstDifference(products.got, products.want, products.bound), "");
  }
}

/// How far off products with int8 activations are, for activations that are normally distributed: the error's root mean
/// square, relative to a product's (the length of the matrix's row). docs/formats.md has what this prints.
TEST_F(FormatsTest, Int8ProductsAreOffByHalfAPercent) {
  for (const Matrix &m : matrices) {
    if (m.layout->isFloat)
      continue;
    double squares = 0;
    size_t count = 0;
    for (unsigned seed = 0; seed < 64; ++seed) {
      Products products = expertProducts(*kernels[0], m, seed);
      for (size_t i = 0; i < products.got.size(); ++i)
        if (products.length[i] > 0x1p-100) { // where f32 rounds as it should
          squares += std::pow((products.got[i] - products.want[i]) / products.length[i], 2);
          ++count;
        }
    }
    ASSERT_GE(count, 1000u) << m.layout->name;
    double percent = 100 * std::sqrt(squares / count);
    std::printf("  %-8s %.3f %%\n", m.layout->name, percent);
    EXPECT_GT(percent, 0.4) << m.layout->name;
    EXPECT_LT(percent, 0.6) << m.layout->name;
  }
}

/// Code for levels that this machine may not run is generated for each family of types, complete in itself.
TEST_F(FormatsTest, EveryLevelHasCompleteCode) {
  size_t compiled = 0;
  for (const cpu::Variant &v : cpu::variants()) {
    if (v.architecture != std::string("x86-64")) // what cannot be loaded here runs in an emulator
      continue;
    std::vector<std::pair<std::string, std::string>> specs;
    for (const char *name : {"q3_k", "iq4_xs", "tq1_0", "iq2_xs"})
      specs.push_back({name, "#exec.linear<columns = 256, int8 = true, parts = [<element = " + std::string(name) +
                                 ", rows = 16, columns = 256>], epilogue = store, tile = 16, rows_per_item = 4>"});
    auto code = compileKernels(specs, {v.name, v});
    ASSERT_TRUE(code) << v.name;
    for (auto &[name, spec] : specs)
      EXPECT_TRUE(code->find(name)) << v.name << " " << name;
    ++compiled;
  }
  EXPECT_GE(compiled, 3u);
}

/// LinearTest's comparison refuses a single bit. These blocks have scales of 0 too, under which one is lost.
TEST_F(FormatsTest, WrongCodesAreRefused) {
  for (const Matrix &m : matrices) {
    if (m.layout->isFloat)
      continue;
    std::vector<std::byte> packed = m.pack(0, m.rows);
    size_t at = m.layout->groupHeaderBytes() + m.layout->headerBytes();
    for (int i = 0; i < 64; ++i) // the first vector: four columns of sixteen rows
      packed[at + i] ^= std::byte{1};
    EXPECT_NE(differs(embed(*kernels[0], m, packed), m.values), "") << m.layout->name;
  }
}

} // namespace
} // namespace g4::conformance

// The heads epilogue of #exec.linear: norms, rotation by position, rotation by blocks, and what it writes to pages of
// every type; then attention over pages so written against attention over the unquantised keys and values.
#include "test/conformance/cpu/KernelHarness.h"
#include "test/conformance/cpu/KvOracle.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

namespace g4::conformance {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kColumns = 64, kPage = module::kPageTokens, kRows = 70;
constexpr double kEps = 1e-6;

struct Shape {
  int64_t dim;
  std::string element;
  KvOracle pages() const { return {element, kKvHeads, dim}; }
  std::string name(const char *kernel) const { return kernel + ("_d" + std::to_string(dim)) + "_" + element; }
  std::string heads() const {
    auto part = [&](int64_t heads) {
      return "<element = f32, rows = " + std::to_string(heads * dim) + ", columns = " + std::to_string(kColumns) + ">";
    };
    return "#exec.linear<columns = " + std::to_string(kColumns) + ", int8 = false, parts = [" + part(kHeads) + ", " +
           part(kKvHeads) + ", " + part(kKvHeads) + "], epilogue = heads, tile = " + std::to_string(dim) +
           ", rows_per_item = 8, heads = <dim = " + std::to_string(dim) + ", heads = " + std::to_string(kHeads) +
           ", kvHeads = " + std::to_string(kKvHeads) + ", query = true, key = true, value = true, kvElement = " + element +
           ", eps = 1.0e-6 : f32>>";
  }
  /// Scores are scaled down, so that an error of a key changes weights by little and the bound says something.
  double scale() const { return 0.125 / dim; }
  std::string attention() const {
    char scaleText[32];
    std::snprintf(scaleText, sizeof scaleText, "%.9e", scale());
    return "#exec.attention<heads = " + std::to_string(kHeads) + ", kvHeads = " + std::to_string(kKvHeads) +
           ", dim = " + std::to_string(dim) + ", window = 0, kvElement = " + element + ", scale = " + scaleText +
           " : f32, forms = <f32 = true, q8 = false>>";
  }
};

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (std::string element : {"f32", "f16", "bf16", "q8_0", "q4_0"})
    result.push_back({32, element});
  for (std::string element : {"q8_0", "q4_0"})
    for (int64_t dim : {64, 256, 512})
      result.push_back({dim, element});
  return result;
}

/// A value and what float32 arithmetic may be off by.
struct Vector {
  std::vector<double> value, bound;
};

/// kRows positions of one sequence, and what its queries, keys and values are.
struct Step {
  Shape shape;
  std::vector<float> x, rope, qNorm, kNorm;
  std::vector<float> weights[3]; ///< [heads * dim / 16][columns][16]
  std::vector<int32_t> map, positions, sequences, blocks{1, 0}, stride{2};

  explicit Step(const Shape &s) : shape(s), x(kRows * kColumns), rope(kRows * s.dim), qNorm(s.dim), kNorm(s.dim) {
    std::mt19937 rng(9);
    std::normal_distribution<float> normal;
    for (float &v : x)
      v = normal(rng);
    for (int i = 0; i < 3; ++i) {
      weights[i].resize((i ? kKvHeads : kHeads) * s.dim * kColumns);
      for (float &w : weights[i])
        w = normal(rng) / 8;
    }
    for (int64_t d = 0; d < s.dim; ++d) {
      qNorm[d] = 1 + normal(rng) / 4;
      kNorm[d] = d == 5 ? 12 : 1 + normal(rng) / 4; // one large column, as models have them
    }
    for (int64_t r = 0; r < kRows; ++r) {
      map.push_back(r);
      positions.push_back(r);
      sequences.push_back(0);
      for (int64_t j = 0; j < s.dim / 2; ++j) {
        double angle = r * std::pow(1e4, -2.0 * j / s.dim);
        rope[r * s.dim + j] = std::cos(angle);
        rope[r * s.dim + s.dim / 2 + j] = std::sin(angle);
      }
    }
  }

  /// Query (part 0), key (1) or value (2) of a head, before any rotation by blocks. Projections and norms: a sum of n
  /// products is off by gamma(n) times the sum of their sizes; the root mean square relatively by what its terms are.
  Vector exact(int part, int64_t row, int64_t head) const {
    int64_t dim = shape.dim, half = dim / 2;
    Vector y{std::vector<double>(dim), std::vector<double>(dim)};
    double squares = 0, off = 0;
    for (int64_t d = 0; d < dim; ++d) {
      int64_t n = head * dim + d;
      for (int64_t c = 0; c < kColumns; ++c) {
        double t = double(x[row * kColumns + c]) * weights[part][(n / 16 * kColumns + c) * 16 + n % 16];
        y.value[d] += t;
        y.bound[d] += gamma(kColumns) * std::fabs(t);
      }
      squares += y.value[d] * y.value[d];
      off += std::fabs(y.value[d]) * y.bound[d];
    }
    double factor = 1 / std::sqrt(squares / dim + kEps), relative = off / squares + gamma(dim / 16 + 12);
    for (int64_t d = 0; d < dim; ++d) {
      double gain = factor * (part == 0 ? qNorm[d] : part == 1 ? kNorm[d] : 1);
      y.bound[d] = 1.001 * std::fabs(gain) * (y.bound[d] + relative * std::fabs(y.value[d]));
      y.value[d] *= gain;
    }
    if (part == 2)
      return y;
    for (int64_t j = 0; j < half; ++j) {
      double a = y.value[j], b = y.value[j + half], cos = rope[row * dim + j], sin = rope[row * dim + j + half];
      double ea = y.bound[j], eb = y.bound[j + half];
      auto off = [&](double c, double s) {
        return ea * std::fabs(c) + eb * std::fabs(s) + gamma(2) * (std::fabs(a * c) + std::fabs(b * s));
      };
      y.value[j] = a * cos - b * sin;
      y.value[j + half] = b * cos + a * sin;
      y.bound[j] = off(cos, sin);
      y.bound[j + half] = off(sin, cos);
    }
    return y;
  }
  Vector rotated(int part, int64_t row, int64_t head) const {
    Vector y = exact(part, row, head);
    return {shape.pages().rotate(y.value), shape.pages().rotatedBound(y.value, y.bound)};
  }

  struct Output {
    std::vector<float> q;
    std::vector<int32_t> arrivals;
    std::vector<std::byte> kv; ///< two pages
    std::span<const std::byte> page(const Shape &s, int64_t position) const {
      return std::span(kv).subspan((position / kPage ? 0 : 1) * s.pages().pageBytes(), s.pages().pageBytes());
    }
  };
  Output empty(std::byte fill) const {
    return {std::vector<float>(kRows * kHeads * shape.dim), std::vector<int32_t>(kRows * kHeads, -1),
            std::vector<std::byte>(2 * shape.pages().pageBytes(), fill)};
  }
  /// Rows [first, first + n) as one step of their own.
  void run(module::KernelFn kernel, Output &out, int64_t first, int64_t n) {
    int32_t count = n, dim = shape.dim;
    std::vector<void *> buffers{&count, &x[first * kColumns], weights[0].data(), weights[1].data(), weights[2].data(),
                                map.data(), &rope[first * dim], qNorm.data(), kNorm.data(), &positions[first],
                                sequences.data(), blocks.data(), stride.data(), &out.q[first * kHeads * dim],
                                &out.arrivals[first * kHeads], out.kv.data()};
    if (shape.pages().isQuantised())
      buffers.push_back(out.kv.data());
    kernel(buffers.data(), 0, (n + 7) / 8 * (kHeads + 2 * kKvHeads));
  }
};

class KvPagesTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::vector<std::pair<std::string, std::string>> specs;
    for (const Shape &s : shapes()) {
      specs.push_back({s.name("heads"), s.heads()});
      specs.push_back({s.name("attention"), s.attention()});
    }
    kernels = compileKernels(specs, instructionSets().front());
  }
  static void TearDownTestSuite() { kernels.reset(); }
  static std::unique_ptr<Kernels> kernels;
};
std::unique_ptr<Kernels> KvPagesTest::kernels;

/// What is wrong with the key or value that a page holds of `exact`, in words; empty if nothing is. It is rounded to the
/// type: half a step of its code, a whole one at q4_0's highest code, which stands for all that is above too.
std::string wrong(const Shape &s, std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot, const Vector &exact) {
  const KvOracle pages = s.pages();
  auto held = pages.load(page, kind, head, slot);
  for (int64_t d = 0; d < s.dim; ++d) {
    double x = exact.value[d], e = exact.bound[d], allowed = e;
    if (pages.isQuantised()) {
      double step = pages.scale(page, kind, head, slot, d), largest = 0, off = 0, steps = s.element == "q8_0" ? 127 : 8;
      for (int64_t i = d / 32 * 32; i < d / 32 * 32 + 32; ++i) {
        largest = std::max(largest, std::fabs(exact.value[i]));
        off = std::max(off, exact.bound[i]);
      }
      if (!(std::fabs(std::fabs(step) * steps - largest) <= off + (0x1p-11 + gamma(2)) * largest))
        return "scale " + std::to_string(step) + " of a block up to " + std::to_string(largest);
      bool highest = s.element == "q4_0" && pages.code(page, kind, head, slot, d) == 15;
      allowed += std::fabs(step) * (highest ? 1 + 0x1p-7 : 0.5) + gamma(4) * std::fabs(x);
    } else {
      allowed += (std::fabs(x) + e) * (s.element == "f16" ? 0x1p-11 : s.element == "bf16" ? 0x1p-8 : 0);
    }
    if (!(std::fabs(held[d] - x) <= allowed))
      return "column " + std::to_string(d) + " is " + std::to_string(held[d]) + ", expected " + std::to_string(x) + " +- " +
             std::to_string(allowed);
  }
  return "";
}

TEST_F(KvPagesTest, PagesHoldTheRoundedKeysAndValues) {
  ASSERT_TRUE(kernels);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(shape.name("heads"));
    Step s(shape);
    auto out = s.empty({});
    s.run(kernels->find(shape.name("heads")), out, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t h = 0; h < kKvHeads; ++h)
        for (Kind kind : {Kind::kKey, Kind::kValue}) {
          Vector exact = s.rotated(kind == Kind::kKey ? 1 : 2, r, h);
          ASSERT_EQ(wrong(shape, out.page(shape, r), kind, h, r % kPage, exact), "") << "position " << r << ", head " << h;
          if (r == 3 && shape.dim == 512) { // the comparison can refuse
            exact.value[40] += 1.1 * std::fabs(shape.pages().scale(out.page(shape, r), kind, h, r % kPage, 40));
            EXPECT_NE(wrong(shape, out.page(shape, r), kind, h, r % kPage, exact), "");
          }
        }
      for (int64_t h = 0; h < kHeads; ++h) {
        Vector q = s.rotated(0, r, h);
        const float *got = &out.q[(r * kHeads + h) * shape.dim];
        ASSERT_EQ(firstDifference({got, got + shape.dim}, q.value, q.bound), "") << "query of position " << r;
      }
    }
  }
}

TEST_F(KvPagesTest, NoByteBelongsToTwoPositions) {
  ASSERT_TRUE(kernels);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(shape.name("heads"));
    Step s(shape);
    auto kernel = kernels->find(shape.name("heads"));
    std::vector<int> owner(shape.pages().pageBytes(), -1);
    for (int64_t p = 0; p < kPage; ++p) {
      auto zeros = s.empty(std::byte(0)), ones = s.empty(std::byte(0xff));
      s.run(kernel, zeros, p, 1);
      s.run(kernel, ones, p, 1);
      auto a = zeros.page(shape, p), b = ones.page(shape, p);
      for (size_t i = 0; i < a.size(); ++i)
        if (a[i] == b[i]) { // written
          ASSERT_EQ(owner[i], -1) << "byte " << i << " belongs to position " << p << " too";
          owner[i] = p;
        }
    }
    for (size_t i = 0; i < owner.size(); ++i)
      ASSERT_NE(owner[i], -1) << "byte " << i << " belongs to nobody";
  }
}

TEST_F(KvPagesTest, RowsDoNotDependOnTheirStep) {
  ASSERT_TRUE(kernels);
  for (const Shape &shape : shapes()) {
    Step s(shape);
    auto kernel = kernels->find(shape.name("heads"));
    auto whole = s.empty({}), parts = s.empty({});
    s.run(kernel, whole, 0, kRows);
    for (int64_t first = 0, n = 1; first < kRows; first += n, n = std::min(n + 2, kRows - first))
      s.run(kernel, parts, first, n);
    EXPECT_EQ(whole.kv, parts.kv) << shape.name("heads");
    EXPECT_EQ(whole.q, parts.q) << shape.name("heads");
    EXPECT_EQ(parts.arrivals, std::vector<int32_t>(kRows * kHeads, 0)) << "no segment of attention has arrived";
  }
}

/// Against attention over the unquantised keys and values, in double. With d the largest error of a score, weights are off
/// by a factor within e^2d; a result is then off by (e^2d - 1) of the values' weighted sizes, and by the values' own errors.
/// Rotating back keeps lengths: so the errors of a block that is rotated together are compared by their length.
TEST_F(KvPagesTest, AttentionIsNearTheUnquantisedOne) {
  ASSERT_TRUE(kernels);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(shape.name("attention"));
    const KvOracle pages = shape.pages();
    if (!pages.isQuantised())
      continue;
    Step s(shape);
    auto written = s.empty({});
    s.run(kernels->find(shape.name("heads")), written, 0, kRows);
    std::vector<float> out(kRows * kHeads * shape.dim);
    int32_t count = kRows;
    std::vector<void *> buffers{&count, s.map.data(), s.positions.data(), s.sequences.data(), s.blocks.data(),
                                s.stride.data(), written.q.data(), written.kv.data(), written.kv.data(), /*parts*/ nullptr,
                                /*arrivals*/ nullptr, out.data()};
    static_assert(kRows > 16); // so that items do whole rows: the first of the 32 of each
    kernels->find(shape.name("attention"))(buffers.data(), 0, kRows * kKvHeads * 32);
    double error = 0, size = 0;
    for (int64_t row : {0, 1, 5, 69})
      for (int64_t h = 0; h < kHeads; ++h) {
        int64_t kvHead = h / (kHeads / kKvHeads);
        Vector q = s.rotated(0, row, h);
        std::vector<double> weight;
        std::vector<std::vector<double>> value, valueOff;
        double worst = 0, total = 0;
        for (int64_t p = 0; p <= row; ++p) {
          Vector k = s.rotated(1, p, kvHead), v = s.rotated(2, p, kvHead);
          auto heldKey = pages.load(written.page(shape, p), Kind::kKey, kvHead, p % kPage),
               heldValue = pages.load(written.page(shape, p), Kind::kValue, kvHead, p % kPage);
          double score = 0, off = 0;
          for (int64_t d = 0; d < shape.dim; ++d) {
            score += q.value[d] * k.value[d] * shape.scale();
            off += std::fabs(q.value[d]) * std::fabs(k.value[d] - heldKey[d]) * shape.scale();
            heldValue[d] = std::fabs(heldValue[d] - v.value[d]);
          }
          worst = std::max(worst, off + 1e-5); // float32's own part: AttentionTest has its bound
          weight.push_back(std::exp(score));
          total += weight.back();
          value.push_back(v.value);
          valueOff.push_back(heldValue);
        }
        for (int64_t first = 0, n = pages.rotationBlock(); first < shape.dim; first += n) {
          std::vector<double> sums(shape.dim);
          double allowed = 0, got = 0;
          for (int64_t d = first; d < first + n; ++d) {
            double bound = 0;
            for (int64_t p = 0; p <= row; ++p) {
              double w = weight[p] / total;
              sums[d] += w * value[p][d];
              bound += w * (std::expm1(2 * worst) * std::fabs(value[p][d]) + std::exp(2 * worst) * valueOff[p][d]);
            }
            allowed += bound * bound;
          }
          auto want = pages.rotate(sums);
          for (int64_t d = first; d < first + n; ++d) {
            double e = out[(row * kHeads + h) * shape.dim + d] - want[d];
            got += e * e;
            size += want[d] * want[d];
          }
          error += got;
          ASSERT_LE(got, allowed) << "position " << row << ", head " << h << ", columns from " << first;
          ASSERT_LT(allowed, n * 0.5) << "a bound that refuses nothing: values are about 1";
        }
      }
    std::printf("%s: relative error %.4f\n", shape.name("attention").c_str(), std::sqrt(error / size));
  }
}

} // namespace
} // namespace g4::conformance

// #exec.attention against softmax in double, for every published head dim and number of query heads per K/V
// head and every type of K/V. What a row must not see is NaN: free slots of its pages, positions outside its
// window, pages of others. Quantised pages are compared with what they hold, exactly.
#include "test/conformance/cpu/KernelHarness.h"
#include "test/conformance/cpu/KvOracle.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <span>

namespace g4::conformance {
namespace {

constexpr int64_t kPage = module::kPageTokens;

struct Shape {
  int64_t dim, ratio, kvHeads, window; ///< window 0: everything before
  std::string element;                 ///< of K and V
  std::string scale = "1.0";
  int64_t heads() const { return ratio * kvHeads; }
  int64_t queriesPerItem() const { return ratio % 4 ? ratio : 4; }
  int64_t itemsPerRow() const { return heads() / queriesPerItem(); }
  KvOracle pages() const { return {element, kvHeads, dim}; }
  std::string name() const {
    return "d" + std::to_string(dim) + "_r" + std::to_string(ratio) + "_w" + std::to_string(window) + "_" +
           element;
  }
  std::string spec() const {
    return "#exec.attention<heads = " + std::to_string(heads()) + ", kvHeads = " + std::to_string(kvHeads) +
           ", dim = " + std::to_string(dim) + ", window = " + std::to_string(window) +
           ", kvElement = " + element + ", scale = " + scale +
           " : f32, forms = #exec.forms<f32 = true, q8 = true>>";
  }
};

/// Head dims 256 and 512 with 1 to 16 query heads per K/V head; windows inside a page, of a page, across
/// pages and of one position; every element type with both head dims. Quantised types with all numbers of query
/// heads at both, and at 32, where half as many columns are rotated together.
std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (int64_t ratio : {1, 2, 4, 8, 16}) {
    result.push_back({256, ratio, ratio < 4 ? 2 : 1, 70, "f16"});
    result.push_back({512, ratio, 1, 0, "f16"});
  }
  for (std::string element : {"f32", "bf16"}) {
    result.push_back({256, 2, 1, element == "f32" ? 64 : 1, element});
    result.push_back({512, 2, 1, 0, element});
  }
  for (std::string element : {"q8_0", "q4_0"})
    for (int64_t ratio : {1, 2, 4, 8, 16}) {
      result.push_back({32, ratio, ratio < 4 ? 2 : 1, 0, element});
      result.push_back({256, ratio, ratio < 4 ? 2 : 1, 70, element});
      result.push_back({512, ratio, 1, 0, element});
    }
  result.push_back({256, 4, 1, 20, "f32", "0.0625"});
  return result;
}

/// One step of rows, each in a sequence of its own, so that all it may not see can be NaN.
struct Step {
  Shape shape;
  std::vector<int32_t> positions, map, sequences, blocks, stride{4};
  std::vector<float> q;      ///< [rows][heads][dim], by row of the set
  std::vector<std::byte> kv; ///< pages
  std::vector<float> k, v;   ///< [rows of the step][positions][kvHeads][dim], what the pages hold
  int64_t rows() const { return std::ssize(map); }
  int64_t depth() const { return stride[0] * kPage; }
  int64_t lower(int64_t row, int64_t window) const {
    int64_t p = positions[map[row]];
    return window ? std::max<int64_t>(0, p + 1 - window) : 0;
  }
  float &at(std::vector<float> &x, int64_t stepRow, int64_t position, int64_t head, int64_t d) {
    return x[((stepRow * depth() + position) * shape.kvHeads + head) * shape.dim + d];
  }

  Step(const Shape &s, uint32_t seed) : shape(s) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    const KvOracle pages = s.pages();
    // Ends of pages and windows, the first position, and one that fills nothing.
    positions = {0, 15, 16, 62, 63, 64, 69, 70, 127, 128, 200, 255};
    int64_t n = std::ssize(positions);
    // The set is every step row but one, in ascending order, as a tail set's map is.
    for (int64_t r = 0; r < n; ++r)
      if (r != 3)
        map.push_back(r);
    std::vector<int32_t> free;
    for (int64_t i = 0; i < n * stride[0]; ++i)
      free.push_back(i);
    std::shuffle(free.begin(), free.end(), rng);
    size_t pageBytes = pages.pageBytes();
    kv.resize(free.size() * pageBytes);
    pages.fillNan(kv);
    blocks.assign(n * stride[0], -1); // released or never taken
    k.assign(n * depth() * s.kvHeads * s.dim, NAN);
    v = k;
    for (int64_t r = 0; r < n; ++r) {
      int64_t sequence = n - 1 - r, low = s.window ? std::max<int64_t>(0, positions[r] + 1 - s.window) : 0;
      sequences.push_back(sequence);
      for (int64_t p = low; p <= positions[r]; ++p) {
        int32_t &page = blocks[sequence * stride[0] + p / kPage];
        if (page < 0) {
          page = free.back();
          free.pop_back();
        }
        auto bytes = std::span(kv).subspan(page * pageBytes, pageBytes);
        for (int64_t h = 0; h < s.kvHeads; ++h) {
          std::span key(&at(k, r, p, h, 0), s.dim), value(&at(v, r, p, h, 0), s.dim);
          for (int64_t d = 0; d < s.dim; ++d) {
            key[d] = normal(rng) / 8;
            value[d] = normal(rng);
          }
          pages.store(bytes, Kind::kKey, h, p % kPage, key);
          pages.store(bytes, Kind::kValue, h, p % kPage, value);
        }
      }
    }
    q.resize(rows() * s.heads() * s.dim);
    for (float &x : q)
      x = normal(rng);
  }
};

struct Output {
  std::vector<float> f32, scale;
  std::vector<int8_t> q;
  std::vector<int32_t> sums;
};

Output run(module::KernelFn kernel, Step &s, int64_t begin, int64_t end) {
  int64_t n = s.rows() * s.shape.heads() * s.shape.dim;
  Output out{std::vector<float>(n), std::vector<float>(n / 32), std::vector<int8_t>(n),
             std::vector<int32_t>(n / 16)};
  int32_t count = s.rows();
  std::vector<void *> buffers{&count,          s.map.data(),    s.positions.data(), s.sequences.data(),
                              s.blocks.data(), s.stride.data(), s.q.data(),         s.kv.data(),
                              out.f32.data(),  out.q.data(),    out.scale.data(),   out.sums.data()};
  if (s.shape.pages().isQuantised()) // bound once for codes and once for scales
    buffers.insert(buffers.begin() + 8, s.kv.data());
  kernel(buffers.data(), begin, end);
  return out;
}

struct Expected {
  std::vector<double> value, bound;
};

/// Bound, with s the scores and p the weights: a score is off by ds = gamma(dim + 1) * sum |q k| (the last
/// for the scale) and, after the largest is subtracted, by one rounding more; the polynomial exp adds 4 u
/// (two units in the last place); each page rescales what came before (one more exp and product). So each p
/// is off by a factor within dp = ds + u |s - max| + 4 u + pages * 6 u, numerator and total both, and the
/// sums of n terms by gamma(n + pages). Quantised: a product with the scale more in both sums, and the result is
/// rotated back.
Expected oracle(Step &s, int64_t window) {
  Expected e;
  const Shape &shape = s.shape;
  const KvOracle pageType = shape.pages();
  const int scaled = pageType.isQuantised();
  double scale = std::stod(shape.scale), u = gamma(1);
  for (int64_t r = 0; r < s.rows(); ++r)
    for (int64_t head = 0; head < shape.heads(); ++head) {
      int64_t stepRow = s.map[r], position = s.positions[stepRow], kvHead = head / shape.ratio,
              low = s.lower(r, window);
      const float *q = &s.q[(r * shape.heads() + head) * shape.dim];
      std::vector<double> score, weight;
      double largest = -INFINITY, off = 0, spread = 0, total = 0;
      for (int64_t p = low; p <= position; ++p) {
        double sum = 0, size = 0;
        for (int64_t d = 0; d < shape.dim; ++d) {
          sum += q[d] * double(s.at(s.k, stepRow, p, kvHead, d));
          size += std::fabs(q[d] * double(s.at(s.k, stepRow, p, kvHead, d)));
        }
        score.push_back(sum * scale);
        off = std::max(off, gamma(shape.dim + 1 + scaled) * size * scale);
        largest = std::max(largest, score.back());
      }
      for (double x : score) {
        weight.push_back(std::exp(x - largest));
        total += weight.back();
        spread = std::max(spread, largest - x);
      }
      double pages = double(position / kPage - low / kPage + 1), n = double(score.size());
      double relative = 2 * (2 * off + u * spread + 4 * u + pages * 6 * u + gamma(n + pages)) + (3 + scaled) * u;
      std::vector<double> value, bound;
      for (int64_t d = 0; d < shape.dim; ++d) {
        double sum = 0, size = 0;
        for (int64_t p = low; p <= position; ++p) {
          double t = weight[p - low] / total * s.at(s.v, stepRow, p, kvHead, d);
          sum += t;
          size += std::fabs(t);
        }
        value.push_back(sum);
        bound.push_back(relative * size);
      }
      bound = pageType.rotatedBound(value, bound);
      value = pageType.rotate(value);
      e.value.insert(e.value.end(), value.begin(), value.end());
      e.bound.insert(e.bound.end(), bound.begin(), bound.end());
    }
  return e;
}

class AttentionTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::vector<std::pair<std::string, std::string>> specs;
    for (const Shape &s : shapes())
      specs.push_back({s.name(), s.spec()});
    // The body has no byte dot product, so emulating one changes nothing: machine instruction sets only.
    for (const InstructionSet &r : instructionSets())
      if (r.name != "emulated")
        kernels.push_back(compileKernels(specs, r));
  }
  static void TearDownTestSuite() { kernels.clear(); }
  static std::vector<std::unique_ptr<Kernels>> kernels;
};
std::vector<std::unique_ptr<Kernels>> AttentionTest::kernels;

TEST_F(AttentionTest, EveryHeadDimGroupAndElementIsWithinItsBound) {
  ASSERT_FALSE(kernels.empty());
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(shape.name());
    Step s(shape, 3);
    Expected want = oracle(s, shape.window);
    for (const auto &k : kernels) {
      ASSERT_TRUE(k && k->find(shape.name()));
      Output out = run(k->find(shape.name()), s, 0, s.rows() * shape.itemsPerRow());
      EXPECT_EQ(firstDifference(out.f32, want.value, want.bound), "");
    }
  }
}

/// The int8 form is the f32 one rounded to 127 steps of each block's largest value.
TEST_F(AttentionTest, BothFormsOfTheResultAgree) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = shapes().front();
  Step s(shape, 4);
  Output out = run(kernels[0]->find(shape.name()), s, 0, s.rows() * shape.itemsPerRow());
  for (size_t b = 0; b < out.scale.size(); ++b) {
    float largest = 0;
    for (size_t i = 32 * b; i < 32 * b + 32; ++i)
      largest = std::max(largest, std::fabs(out.f32[i]));
    ASSERT_EQ(out.scale[b], largest / 127);
    for (size_t i = 32 * b; i < 32 * b + 32;
         ++i) // a rounding of the product with 127 / largest beside the half step
      ASSERT_LE(std::fabs(out.f32[i] - double(out.q[i]) * out.scale[b]),
                (0.5 + 127 * gamma(4)) * out.scale[b])
          << i;
  }
  for (size_t b = 0; b < out.sums.size(); ++b)
    ASSERT_EQ(out.sums[b], std::accumulate(&out.q[16 * b], &out.q[16 * b] + 16, 0));
}

/// Two queries of each of two K/V heads are two items; so are eight queries of one.
TEST_F(AttentionTest, EachItemIsOneRowAndAtMostFourQueriesOfAKvHead) {
  ASSERT_FALSE(kernels.empty());
  for (const Shape &shape : {Shape{256, 2, 2, 70, "f16"}, Shape{256, 8, 1, 70, "f16"}}) {
    ASSERT_EQ(shape.itemsPerRow(), 2);
    Step s(shape, 5);
    int64_t items = s.rows() * 2, width = shape.queriesPerItem() * shape.dim;
    auto kernel = kernels[0]->find(shape.name());
    ASSERT_TRUE(kernel);
    Output whole = run(kernel, s, 0, items);
    for (int64_t i = 0; i < items; ++i) {
      Output one = run(kernel, s, i, i + 1);
      for (int64_t j = 0; j < std::ssize(one.f32); ++j)
        ASSERT_EQ(one.f32[j], j / width == i ? whole.f32[j] : 0.0f) << "item " << i << ", result " << j;
    }
  }
}

TEST_F(AttentionTest, TheComparisonRefusesAWindowThatIsOneOff) {
  ASSERT_FALSE(kernels.empty());
  Shape narrow = shapes().back();
  ASSERT_EQ(narrow.window, 20);
  Step s(narrow, 6);
  Output out = run(kernels[0]->find(narrow.name()), s, 0, s.rows());
  Expected right = oracle(s, 20), wrong = oracle(s, 19);
  EXPECT_EQ(firstDifference(out.f32, right.value, right.bound), "");
  EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
}

TEST_F(AttentionTest, TheComparisonRefusesOneWrongKey) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = shapes().back();
  Step s(shape, 6);
  Output out = run(kernels[0]->find(shape.name()), s, 0, s.rows());
  s.at(s.k, 5, 60, 0, 100) += 0.01f;
  Expected wrong = oracle(s, shape.window);
  EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
}

TEST_F(AttentionTest, TheComparisonRefusesOneWrongCodeOrNoRotation) {
  ASSERT_FALSE(kernels.empty());
  for (std::string element : {"q8_0", "q4_0"}) {
    Shape shape{32, 4, 1, 0, element};
    Step s(shape, 7);
    Output out = run(kernels[0]->find(shape.name()), s, 0, s.rows());
    Expected right = oracle(s, 0);
    EXPECT_EQ(firstDifference(out.f32, right.value, right.bound), "");
    Step turned = s;
    turned.shape.element = "f32"; // the same values in pages that are not rotated
    Expected wrong = oracle(turned, 0);
    EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
    ASSERT_EQ(s.positions[0], 0); // the row whose only key has all the weight
    auto page = std::span(s.kv).subspan(s.blocks[s.sequences[0] * 4] * shape.pages().pageBytes());
    s.at(s.v, 0, 0, 0, 20) += shape.pages().scale(page, Kind::kValue, 0, 0, 20);
    wrong = oracle(s, 0);
    EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
  }
}

} // namespace
} // namespace g4::conformance

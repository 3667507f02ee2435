// #exec.attention against softmax in double, for every published head dim and number of query heads per K/V head and every
// type of K/V, with segments as items and with whole rows: both must give the same bits, whoever comes last. What a row
// must not see is NaN: free slots of its pages, positions outside its window, pages of others. Quantised pages are
// compared with what they hold, exactly.
#include "test/conformance/cpu/KernelHarness.h"
#include "test/conformance/cpu/KvOracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <span>
#include <thread>

namespace g4::conformance {
namespace {

constexpr int64_t kPage = module::kPageTokens;

struct Shape {
  int64_t dim, ratio, kvHeads, window; ///< window 0: everything before
  std::string element;                 ///< of K and V
  std::string scale = "1.0";
  int64_t heads() const { return ratio * kvHeads; }
  KvOracle pages() const { return {element, kvHeads, dim}; }
  /// Work items of a row and K/V head: the most segments that a row sees.
  int64_t segments() const {
    int64_t tokens = (window + 2047) / 2048 * 64;
    return window ? (window - 1 + tokens - 1) / tokens + 1 : 32;
  }
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

/// For sequences of more than 32 pages, which have segments of several: every type of K/V, all positions, a window with
/// segments of a page and one with segments of two.
std::vector<Shape> longShapes() {
  std::vector<Shape> result;
  for (std::string element : {"f32", "f16", "bf16", "q8_0", "q4_0"})
    result.push_back({32, 3, 2, 0, element, "0.25"});
  result.push_back({32, 5, 1, 512, "f16", "0.25"});
  result.push_back({32, 1, 1, 2100, "f16", "0.25"});
  return result;
}

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
  for (const Shape &s : longShapes())
    result.push_back(s);
  result.push_back({256, 4, 1, 20, "f32", "0.0625"});
  return result;
}

/// Around the places where segments begin, become longer, and leave a window.
std::vector<int32_t> longPositions() { return {63, 64, 2046, 2047, 2048, 2049, 2099, 2100, 2175, 2176, 4095, 4096, 4223, 4224}; }

/// One step of rows, each in a sequence of its own, so that all it may not see can be NaN.
struct Step {
  Shape shape;
  std::vector<int32_t> positions, map, sequences, blocks, stride;
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

  /// By default: ends of pages and windows, the first position, and one that fills nothing.
  Step(const Shape &s, uint32_t seed, const std::vector<int32_t> &rowPositions = {0, 15, 16, 62, 63, 64, 69, 70, 127, 128, 200, 255})
      : shape(s), positions(rowPositions), stride{int32_t(*std::ranges::max_element(rowPositions) / kPage + 1)} {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    const KvOracle pages = s.pages();
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
  bool operator==(const Output &) const = default;
};

/// Segments are work items of their own, or an item does a whole row, as in steps of more than 16 rows.
enum class Way { kSplit, kWhole };

struct How {
  uint32_t seed = 0; ///< items one by one in an order of their own; 0: all at once
  int64_t left = -1; ///< an item that is not done
  int threads = 1;   ///< that take items one by one
};

/// Pairs [begin, end) of a row and a K/V head.
Output run(const Kernels &kernels, Step &s, Way way, int64_t begin, int64_t end, How how = {}) {
  int64_t n = s.rows() * s.shape.heads() * s.shape.dim;
  Output out{std::vector<float>(n), std::vector<float>(n / 32), std::vector<int8_t>(n),
             std::vector<int32_t>(n / 16)};
  int32_t count = way == Way::kSplit ? s.rows() : 17;
  EXPECT_LE(s.rows(), 16);
  std::vector<float> parts(16 * s.shape.heads() * s.shape.segments() * (s.shape.dim + 16), NAN);
  std::vector<int32_t> arrivals(s.rows() * s.shape.heads());
  std::vector<void *> buffers{&count,          s.map.data(),    s.positions.data(), s.sequences.data(),
                              s.blocks.data(), s.stride.data(), s.q.data(),         s.kv.data(),
                              parts.data(),    arrivals.data(), out.f32.data(),     out.q.data(),
                              out.scale.data(), out.sums.data()};
  if (s.shape.pages().isQuantised()) // bound once for codes and once for scales
    buffers.insert(buffers.begin() + 8, s.kv.data());
  auto attention = kernels.find(s.shape.name());
  int64_t first = begin * s.shape.segments(), last = end * s.shape.segments();
  if (how.seed == 0 && how.left < 0 && how.threads == 1) {
    attention(buffers.data(), first, last);
    return out;
  }
  std::vector<int64_t> items(last - first);
  std::iota(items.begin(), items.end(), first);
  if (how.seed)
    std::shuffle(items.begin(), items.end(), std::mt19937(how.seed));
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < items.size();)
      if (items[i] != how.left)
        attention(buffers.data(), items[i], items[i] + 1);
  };
  std::vector<std::jthread> others(how.threads - 1);
  for (std::jthread &thread : others)
    thread = std::jthread(work);
  work();
  others.clear(); // joins
  return out;
}

struct Expected {
  std::vector<double> value, bound;
};

/// Bound, with s the scores and p the weights: a score is off by ds = gamma(dim + 1) * sum |q k| (the last
/// for the scale) and, after the largest is subtracted, by one rounding more; the polynomial exp adds 4 u
/// (two units in the last place); each page rescales what came before (one more exp and product), and so does each
/// segment, of which there are no more than pages. So each p is off by a factor within
/// dp = ds + u |s - max| + 4 u + 2 pages * 6 u, numerator and total both, and the sums of n terms by gamma(n + 2 pages). Quantised: a product with the scale more in both sums, and the result is
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
      double relative = 2 * (2 * off + u * spread + 4 * u + 2 * pages * 6 * u + gamma(n + 2 * pages)) + (3 + scaled) * u;
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
      int64_t pairs = s.rows() * shape.kvHeads;
      Output out = run(*k, s, Way::kSplit, 0, pairs);
      EXPECT_EQ(firstDifference(out.f32, want.value, want.bound), "");
      EXPECT_TRUE(run(*k, s, Way::kWhole, 0, pairs) == out) << "whole rows give other bits";
    }
  }
}

TEST_F(AttentionTest, LongSequencesAreWithinTheirBoundBothWays) {
  ASSERT_FALSE(kernels.empty());
  for (const Shape &shape : longShapes()) {
    SCOPED_TRACE(shape.name());
    Step s(shape, 8, longPositions());
    Expected want = oracle(s, shape.window);
    int64_t pairs = s.rows() * shape.kvHeads;
    for (const auto &k : kernels) {
      Output out = run(*k, s, Way::kSplit, 0, pairs);
      EXPECT_EQ(firstDifference(out.f32, want.value, want.bound), "");
      EXPECT_TRUE(run(*k, s, Way::kWhole, 0, pairs) == out) << "whole rows give other bits";
      EXPECT_TRUE(run(*k, s, Way::kSplit, 0, pairs, {.seed = 5}) == out) << "another order of items gives other bits";
    }
  }
}

/// Each segment matters and is one item: of sequences shorter than all segments some items are empty, the others are not.
TEST_F(AttentionTest, EverySegmentIsAnItemOfItsOwn) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = longShapes().front();
  for (auto [position, segments] : {std::pair(63, 1), {64, 2}, {2047, 32}, {2048, 17}, {4095, 32}, {4096, 22}}) {
    SCOPED_TRACE(position);
    Step s(shape, 9, {position});
    Output out = run(*kernels[0], s, Way::kSplit, 0, 1);
    int different = 0;
    for (int64_t item = 0; item < shape.segments(); ++item)
      different += !(run(*kernels[0], s, Way::kSplit, 0, 1, {.left = item}) == out);
    EXPECT_EQ(different, segments);
  }
}

/// Whoever arrives last finds what the others wrote, and folds it in order.
TEST_F(AttentionTest, ThreadsThatShareARowGiveItsBits) {
  ASSERT_FALSE(kernels.empty());
  for (const Shape &shape : longShapes()) {
    SCOPED_TRACE(shape.name());
    Step s(shape, 10, {640, 2047, 4224});
    int64_t pairs = s.rows() * shape.kvHeads;
    Output out = run(*kernels[0], s, Way::kSplit, 0, pairs);
    for (uint32_t seed = 1; seed <= 20; ++seed)
      ASSERT_TRUE(run(*kernels[0], s, Way::kSplit, 0, pairs, {.seed = seed, .threads = 4}) == out) << "order " << seed;
  }
}

/// The int8 form is the f32 one rounded to 127 steps of each block's largest value.
TEST_F(AttentionTest, BothFormsOfTheResultAgree) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = shapes().front();
  Step s(shape, 4);
  Output out = run(*kernels[0], s, Way::kSplit, 0, s.rows() * shape.kvHeads);
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

TEST_F(AttentionTest, ItemsOfOneRowAndOneKvHeadWriteItsResultOnly) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = shapes().front();
  ASSERT_EQ(shape.kvHeads, 2);
  Step s(shape, 5);
  int64_t pairs = s.rows() * shape.kvHeads, width = shape.ratio * shape.dim;
  for (Way way : {Way::kSplit, Way::kWhole}) {
    Output all = run(*kernels[0], s, way, 0, pairs);
    for (int64_t i = 0; i < pairs; ++i) {
      Output one = run(*kernels[0], s, way, i, i + 1);
      for (int64_t j = 0; j < std::ssize(one.f32); ++j)
        ASSERT_EQ(one.f32[j], j / width == i ? all.f32[j] : 0.0f) << "pair " << i << ", result " << j;
    }
  }
}

TEST_F(AttentionTest, TheComparisonRefusesAWindowThatIsOneOff) {
  ASSERT_FALSE(kernels.empty());
  Shape narrow = shapes().back();
  ASSERT_EQ(narrow.window, 20);
  Step s(narrow, 6);
  Output out = run(*kernels[0], s, Way::kSplit, 0, s.rows());
  Expected right = oracle(s, 20), wrong = oracle(s, 19);
  EXPECT_EQ(firstDifference(out.f32, right.value, right.bound), "");
  EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
}

TEST_F(AttentionTest, TheComparisonRefusesOneWrongKey) {
  ASSERT_FALSE(kernels.empty());
  Shape shape = shapes().back();
  Step s(shape, 6);
  Output out = run(*kernels[0], s, Way::kSplit, 0, s.rows());
  s.at(s.k, 5, 60, 0, 100) += 0.01f;
  Expected wrong = oracle(s, shape.window);
  EXPECT_NE(firstDifference(out.f32, wrong.value, wrong.bound), "");
}

TEST_F(AttentionTest, TheComparisonRefusesOneWrongCodeOrNoRotation) {
  ASSERT_FALSE(kernels.empty());
  for (std::string element : {"q8_0", "q4_0"}) {
    Shape shape{32, 4, 1, 0, element};
    Step s(shape, 7);
    Output out = run(*kernels[0], s, Way::kSplit, 0, s.rows());
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

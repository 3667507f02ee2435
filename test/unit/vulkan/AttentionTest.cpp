// Attention over f16 pages with grouped queries and a window, on the CPU and on the Vulkan device.
#include "runtime/module/StepAbi.h"
#include "test/unit/vulkan/Bounded.h"
#include "test/unit/vulkan/CompiledKernel.h"

#include <gtest/gtest.h>

#include <random>

namespace g4::test {
namespace {

// Six queries to a K/V head: a whole tile of heads and a rest. The window ends inside pages.
constexpr int kHeads = 12, kKvHeads = 2, kGroup = kHeads / kKvHeads, kDim = 64, kWindow = 100;
constexpr int kPage = module::kPageTokens, kPages = 8, kBlocks = 4;
constexpr double kScale = 0.5;
constexpr const char *kSpec =
    "#exec.attention<heads = 12, kvHeads = 2, dim = 64, window = 100, kvElement = f16, "
    "scale = 5.0e-01 : f32, forms = <f32 = true, q8 = true>>";
// Rows of two sequences, in no order; the first position, a page's last and first, and a window over three
// pages.
constexpr int kRows = 7;
constexpr int kSegments = 3; // a window of 100 lies in three pages at most
constexpr int kItems = kRows * kKvHeads * kSegments;
constexpr int kPositions[kRows] = {130, 0, 17, 131, 63, 64, 229}, kSequences[kRows] = {1, 0, 0, 1, 0, 0, 1};
// Pages of each sequence by their absolute number; -1: none, or released.
constexpr int kTable[2][kBlocks] = {{5, 2, -1, -1}, {6, 0, 7, 3}};
constexpr uint16_t kNan = 0x7e00;

constexpr int kPageElements = 2 * kKvHeads * kPage * kDim;
size_t keyAt(int page, int head, int slot, int d) {
  return size_t(page) * kPageElements + ((head * (kPage / 16) + slot / 16) * kDim + d) * 16 + slot % 16;
}
size_t valueAt(int page, int head, int slot, int d) {
  return size_t(page) * kPageElements + ((kKvHeads + head) * (kDim / 16) + d / 16) * kPage * 16 + slot * 16 + d % 16;
}
bool inWindow(int row, int position) {
  return position <= kPositions[row] && position > kPositions[row] - kWindow;
}

class Attention : public ::testing::Test {
protected:
  static void SetUpTestSuite() { kernel = CompiledKernel::compile(kSpec, compileError); }
  static void TearDownTestSuite() { kernel.reset(); }
  void SetUp() override {
    ASSERT_TRUE(kernel) << compileError;
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-1, 1);
    q.resize(kRows * kHeads * kDim);
    for (float &x : q)
      x = uniform(random);
    // Multiples of 1/512 in (-1, 1): f16 holds them exactly. What no row may read is NaN.
    kv.assign(size_t(kPages) * kPageElements, kNan);
    exact.assign(kv.size(), std::nan(""));
    auto put = [&](size_t at) {
      int n = int(random() % 1023) - 511;
      exact[at] = n / 512.0;
      kv[at] = halfOf(n);
    };
    for (int sequence = 0; sequence < 2; ++sequence)
      for (int position = 0; position < kBlocks * kPage; ++position) {
        bool read = false;
        for (int row = 0; row < kRows; ++row)
          read |= kSequences[row] == sequence && inWindow(row, position);
        for (int i = 0; read && i < kKvHeads * kDim; ++i) {
          put(keyAt(kTable[sequence][position / kPage], i / kDim, position % kPage, i % kDim));
          put(valueAt(kTable[sequence][position / kPage], i / kDim, position % kPage, i % kDim));
        }
      }
    std::vector<int32_t> map(kRows), blocks(&kTable[0][0], &kTable[0][0] + 2 * kBlocks);
    for (int row = 0; row < kRows; ++row)
      map[row] = row;
    buffers.set("count", std::vector<int32_t>{kRows});
    buffers.set("map", map);
    buffers.set("positions", std::vector<int32_t>(kPositions, kPositions + kRows));
    buffers.set("sequences", std::vector<int32_t>(kSequences, kSequences + kRows));
    buffers.set("blocks", blocks);
    buffers.set("blocks_stride", std::vector<int32_t>{kBlocks});
    buffers.set("q", q);
    buffers.set("kv", kv);
    buffers.zeros<float>("parts", 16 * kHeads * kSegments * (kDim + 16));
    buffers.zeros<int32_t>("arrivals", kRows * kHeads);
    buffers.zeros<float>("out", kRows * kHeads * kDim);
    buffers.zeros<int8_t>("out.q", kRows * kHeads * kDim);
    buffers.zeros<float>("out.scale", kRows * kHeads * kDim / 32);
    buffers.zeros<int32_t>("out.sums", kRows * kHeads * kDim / 16);
  }

  /// n / 512 as f16, |n| < 512.
  static uint16_t halfOf(int n) {
    if (n == 0)
      return 0;
    int m = std::abs(n), exponent = 31 - __builtin_clz(unsigned(m)); // m = 2^exponent (1 + f)
    return uint16_t((n < 0 ? 0x8000 : 0) | (exponent - 9 + 15) << 10 | ((m << (10 - exponent)) & 0x3ff));
  }
  std::vector<Bounded> expect() const;
  int wrong(const Buffers &result, const char *what) const;

  static std::unique_ptr<CompiledKernel> kernel;
  static std::string compileError;
  std::vector<float> q;
  std::vector<uint16_t> kv;
  std::vector<double> exact; // what kv holds
  Buffers buffers;
};

std::unique_ptr<CompiledKernel> Attention::kernel;
std::string Attention::compileError;

std::vector<Bounded> Attention::expect() const {
  std::vector<Bounded> out(kRows * kHeads * kDim);
  for (int row = 0; row < kRows; ++row)
    for (int head = 0; head < kHeads; ++head) {
      const float *query = &q[(row * kHeads + head) * kDim];
      int first = std::max(0, kPositions[row] - kWindow + 1), count = kPositions[row] + 1 - first;
      auto page = [&](int i) { return kTable[kSequences[row]][(first + i) / kPage]; };
      std::vector<Bounded> score(count);
      Bounded largest(-1e30);
      double lowest = 1e30;
      for (int i = 0; i < count; ++i) {
        Sum sum;
        for (int d = 0; d < kDim; ++d)
          sum.add(Bounded(query[d]) * Bounded(exact[keyAt(page(i), head / kGroup, (first + i) % kPage, d)]));
        score[i] = sum.get() * Bounded(kScale);
        if (score[i].value > largest.value)
          largest = {score[i].value, std::max(largest.error, score[i].error)};
        lowest = std::min(lowest, score[i].value);
      }
      // With each page, and with each segment (here a page), sums are scaled by exp(old - new maximum): the error of one
      // difference, exp and product.
      double perPage = (largest.value - lowest + 20) * kUnit;
      Sum total;
      std::vector<Bounded> weight(count);
      for (int i = 0; i < count; ++i) {
        weight[i] = exp(score[i] - largest);
        weight[i].error += 2 * kBlocks * perPage * weight[i].value;
        total.add(weight[i]);
      }
      Bounded inverse = Bounded(1) / total.get();
      for (int d = 0; d < kDim; ++d) {
        Sum sum;
        for (int i = 0; i < count; ++i)
          sum.add(weight[i] * Bounded(exact[valueAt(page(i), head / kGroup, (first + i) % kPage, d)]));
        out[(row * kHeads + head) * kDim + d] = sum.get() * inverse;
      }
    }
  return out;
}

int Attention::wrong(const Buffers &result, const char *what) const {
  std::vector<Bounded> out = expect();
  auto have = result.get<float>("out");
  int count = 0;
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    count += !out[i].holds(have[i]);
    worst = std::max(worst, std::abs(have[i] - out[i].value) / out[i].error);
  }
  std::printf("%s: %d results outside of the bound, the worst used %.3f of its bound\n", what, count, worst);
  return count;
}

TEST_F(Attention, CpuAndVulkanComputeTheSameWithinTheBound) {
  Buffers cpu = buffers, gpu = buffers;
  ASSERT_EQ(kernel->runOnCpu(cpu, kItems), "");
  ASSERT_EQ(kernel->runOnVulkan(gpu, kItems), "");
  EXPECT_EQ(wrong(cpu, "CPU"), 0);
  EXPECT_EQ(wrong(gpu, "Vulkan"), 0);
}

TEST_F(Attention, AForgottenKeyIsSeen) {
  // The oldest key of the last row's window becomes another one.
  int oldest = kPositions[6] - kWindow + 1, page = kTable[1][oldest / kPage];
  for (int d = 0; d < kDim; ++d)
    kv[keyAt(page, 0, oldest % kPage, d)] = halfOf(d - 32);
  buffers.set("kv", kv);
  ASSERT_EQ(kernel->runOnVulkan(buffers, kItems), "");
  EXPECT_GT(wrong(buffers, "Vulkan with another key"), 0);
}

TEST_F(Attention, TheBoundIsSmall) {
  double errors = 0, values = 0;
  for (const Bounded &b : expect()) {
    errors += b.error;
    values += std::abs(b.value);
  }
  EXPECT_LT(errors, 1e-3 * values);
}

} // namespace
} // namespace g4::test

// How the grid of routed experts, which has room for every pair of row and expert, shares the tiles that there are.
#include "test/conformance/cpu/KernelHarness.h"

#include <gtest/gtest.h>

namespace g4::conformance {
namespace {

// Two experts of 32 outputs in tiles of 16, each of 8 rows with both: 16 pairs, 32 items of the grid.
constexpr int64_t kExperts = 2, kUsed = 2, kRows = 8, kPairs = kRows * kUsed, kOutputs = 32, kColumns = 32, kParts = 2;
constexpr int64_t kGrid = kPairs * kParts, kTileRows = 4;

class ExpertsTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    kernels = compileKernels({{"down", "#exec.experts<experts = 2, used = 2, tile_rows = 4, int8 = false, "
                                       "parts = [<element = f32, rows = 64, columns = 32>], tile = 16>"}},
                             instructionSets().front());
  }
  static void TearDownTestSuite() { kernels.reset(); }
  void SetUp() override {
    ASSERT_TRUE(kernels);
    for (int32_t pair = 0; pair < kPairs; ++pair)
      order.push_back(pair);
  }

  /// Runs items [begin, end) of the grid, for a list of `n` tiles: 1 for each of the list's items that was done, 0 for the others.
  std::vector<int> done(int32_t n, int64_t begin, int64_t end) {
    tiles.assign(1, n);
    for (int32_t tile = 0; tile < n; ++tile)
      tiles.insert(tiles.end(), {tile % int32_t(kExperts), tile * int32_t(kTileRows), int32_t(kTileRows)});
    std::vector<float> out(kPairs * kOutputs, NAN);
    void *buffers[] = {&count, order.data(), tiles.data(), x.data(), weights.data(), routing.data(), out.data()};
    kernels->find("down")(buffers, begin, end);
    std::vector<int> items;
    for (int64_t item = 0; item < n * kParts; ++item) {
      int written = 0;
      for (int64_t row = 0; row < kTileRows; ++row)
        for (int64_t column = 0; column < 16; ++column) {
          int64_t at = (item / kParts * kTileRows + row) * kOutputs + item % kParts * 16 + column;
          written += !std::isnan(out[size_t(at)]);
        }
      EXPECT_TRUE(written == 0 || written == kTileRows * 16) << "item " << item << " is done in part";
      items.push_back(written > 0);
    }
    int64_t rows = n * kTileRows;
    for (int64_t at = rows * kOutputs; at < kPairs * kOutputs; ++at)
      EXPECT_TRUE(std::isnan(out[size_t(at)])) << "beyond the list";
    return items;
  }
  static int sum(const std::vector<int> &v) {
    int n = 0;
    for (int i : v)
      n += i;
    return n;
  }

  static std::unique_ptr<Kernels> kernels;
  int32_t count = kRows;
  std::vector<int32_t> order, tiles;
  std::vector<float> x = std::vector<float>(kPairs * kColumns, 1), routing = std::vector<float>(kPairs, 1);
  std::vector<float> weights = std::vector<float>(kExperts * kOutputs * kColumns, 1);
};
std::unique_ptr<Kernels> ExpertsTest::kernels;

TEST_F(ExpertsTest, AnyCutOfTheGridDoesEveryItemOnce) {
  for (int32_t n : {1, 2, 3, 4})
    for (int64_t turn : {1, 3, 5, 16, 32}) {
      std::vector<int> total(size_t(n * kParts), 0);
      for (int64_t begin = 0; begin < kGrid; begin += turn) {
        std::vector<int> items = done(n, begin, std::min(kGrid, begin + turn));
        for (size_t i = 0; i < items.size(); ++i)
          total[i] += items[i];
      }
      EXPECT_EQ(total, std::vector<int>(total.size(), 1)) << n << " tiles in turns of " << turn;
    }
}

TEST_F(ExpertsTest, EqualSharesOfTheGridAreEqualSharesOfTheWork) {
  // Three tiles of two parts, in a grid for sixteen: with threads that take the list's items where they stand in the grid,
  // the first would do all of them.
  for (int64_t threads : {2, 4}) {
    for (int64_t thread = 0; thread < threads; ++thread) {
      int items = sum(done(3, thread * kGrid / threads, (thread + 1) * kGrid / threads));
      EXPECT_GE(items, 6 / threads) << thread << " of " << threads;
      EXPECT_LE(items, (6 + threads - 1) / threads) << thread << " of " << threads;
    }
  }
}

} // namespace
} // namespace g4::conformance

#include "compiler/reference/Kernels.h"

#include <gtest/gtest.h>

#include <cmath>

namespace g4::reference {
namespace {

TEST(KernelsTest, TopKBreaksTiesToTheLowerIndex) {
  const float x[] = {1, 3, 2, 3, 2};
  EXPECT_EQ(topK(x, 4), (std::vector<int32_t>{1, 3, 2, 4}));
}

TEST(KernelsTest, GeluIsTheTanhForm) {
  EXPECT_EQ(geluTanh(0), 0.0f);
  // The tanh form and the exact form differ in the fourth digit here: 0.841192 and 0.841345.
  EXPECT_NEAR(geluTanh(1), 0.841192f, 1e-6);
  EXPECT_NEAR(geluTanh(-1), -0.158808f, 1e-6);
  EXPECT_EQ(geluTanh(100), 100.0f);
}

TEST(KernelsTest, RmsNormTakesEachGroupAlone) {
  float x[] = {3, 4, 30, 40};
  const float gain[] = {1, 2};
  rmsNorm(x, gain, 2, 1e-12f);
  float rms = std::sqrt(12.5f);
  EXPECT_NEAR(x[0], 3 / rms, 1e-6);
  EXPECT_NEAR(x[1], 8 / rms, 1e-6);
  EXPECT_NEAR(x[2], 3 / rms, 1e-6);
  EXPECT_NEAR(x[3], 8 / rms, 1e-6);
}

TEST(KernelsTest, RopePairsTheHalvesOfAHeadAndDividesByFactors) {
  float x[] = {1, 2, 0, 0};
  const float factors[] = {1.0f, 1e30f};
  rope(x, 1, 1, 1e4, factors);
  EXPECT_NEAR(x[0], std::cos(1.0), 1e-6);
  EXPECT_NEAR(x[2], std::sin(1.0), 1e-6);
  EXPECT_EQ(x[1], 2.0f); // 1e30: does not turn
  EXPECT_NEAR(x[3], 0.0f, 1e-29);
}

TEST(KernelsTest, AttentionSeesExactlyItsWindow) {
  KeysValues kv{Matrix(5, 1), Matrix(5, 1), /*heads=*/1, /*dim=*/1, /*window=*/2};
  for (int64_t p = 0; p < 5; ++p)
    kv.values.row(p)[0] = static_cast<float>(1 << p);
  const float query[] = {0};
  float out[1];
  attend(query, kv, 3, 1, 1.0f, out); // equal scores: the mean of positions 2 and 3
  EXPECT_EQ(out[0], 6.0f);
  attend(query, kv, 0, 1, 1.0f, out);
  EXPECT_EQ(out[0], 1.0f);
  kv.window = 0;
  attend(query, kv, 3, 1, 1.0f, out);
  EXPECT_EQ(out[0], 15.0f / 4);
}

TEST(KernelsTest, ConsecutiveQueryHeadsShareAKeyHead) {
  KeysValues kv{Matrix(1, 2), Matrix(1, 2), /*heads=*/2, /*dim=*/1, /*window=*/0};
  kv.values.row(0)[0] = 5;
  kv.values.row(0)[1] = 7;
  const float query[4] = {};
  float out[4];
  attend(query, kv, 0, 4, 1.0f, out);
  EXPECT_EQ(out[0], 5.0f);
  EXPECT_EQ(out[1], 5.0f);
  EXPECT_EQ(out[2], 7.0f);
  EXPECT_EQ(out[3], 7.0f);
}

TEST(KernelsTest, SoftmaxDoesNotOverflow) {
  float x[] = {1000, 1000, -1000};
  softmax(x);
  EXPECT_EQ(x[0], 0.5f);
  EXPECT_EQ(x[2], 0.0f);
}

} // namespace
} // namespace g4::reference

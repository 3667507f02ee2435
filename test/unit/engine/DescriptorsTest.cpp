#include "runtime/engine/Descriptors.h"

#include <gtest/gtest.h>

#include <cmath>

namespace g4::engine {
namespace {

TEST(RopeAnglesTest, UnrotatedPairsAreExactlyOneAndZero) {
  const std::vector<float> factors = {1, 1e30f};
  const RopeAngles rope(4, 1e6, factors);
  float out[4];
  rope.write(131071, out);
  EXPECT_EQ(out[1], 1.0f);
  EXPECT_LT(std::abs(out[3]), 1e-20f);
  EXPECT_NE(out[0], 1.0f);
}

TEST(RopeAnglesTest, FarPositionsKeepDoublePrecision) {
  const RopeAngles rope(256, 1e4, {});
  std::vector<float> out(256);
  for (uint32_t p : {0u, 1u, 5000u, 262143u}) {
    rope.write(p, out.data());
    for (uint32_t j = 0; j < 128; ++j) {
      const long double angle = p * std::pow(10000.0L, -2.0L * j / 256);
      EXPECT_NEAR(out[j], double(std::cos(angle)), 1e-7);
      EXPECT_NEAR(out[128 + j], double(std::sin(angle)), 1e-7);
    }
  }
}

} // namespace
} // namespace g4::engine

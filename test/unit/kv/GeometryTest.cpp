#include "runtime/kv/Geometry.h"

#include <gtest/gtest.h>

namespace g4::kv {
namespace {

// Per position and layer, as two published models have it: many small sliding layers beside few large global
// ones.
Geometry model(uint64_t sliding, uint64_t global, uint32_t window = 512) {
  Geometry geometry{32, window, {}};
  if (sliding)
    geometry.layers.push_back({PageClass::kSliding, Element::kF16, 32 * sliding});
  if (global)
    geometry.layers.push_back({PageClass::kGlobal, Element::kF16, 32 * global});
  return geometry;
}

uint64_t bytesOf(const Geometry &geometry, const Capacity &capacity) {
  return capacity.slidingPages * geometry.pageBytes(PageClass::kSliding) +
         capacity.globalPages * geometry.pageBytes(PageClass::kGlobal);
}

TEST(GeometryTest, TheWindowsOfTheLastTwoWholePagesAreKept) {
  for (const uint32_t window : {1u, 2u, 4u, 5u, 9u, 64u}) {
    const Geometry geometry{4, window, {}};
    for (uint32_t length = 0; length < 300; ++length) {
      const uint32_t first = geometry.firstPageKept(length);
      const uint32_t last = length ? (length - 1) / 4 * 4 : 0;
      for (const uint32_t boundary : {last, last ? last - 4 : 0}) {
        // A query at the boundary sees the keys of positions boundary - window + 1 to boundary.
        const uint32_t seen = boundary + 1 > window ? boundary + 1 - window : 0;
        EXPECT_LE(first, seen / 4) << "window " << window << " length " << length;
      }
      EXPECT_LE(first, geometry.firstPageOfWindow(length));
    }
  }
}

TEST(GeometryTest, ABudgetIsNeverExceededAndHardlyLeftOver) {
  for (const Geometry &geometry : {model(12288, 6144), model(819200, 81920), model(100, 3000), model(0, 512),
                                   model(512, 0), model(12288, 6144, 1)}) {
    const uint64_t both = geometry.pageBytes(PageClass::kSliding) + geometry.pageBytes(PageClass::kGlobal);
    uint32_t cases = 0;
    for (uint64_t bytes = both; bytes < 5000 * both; bytes += bytes / 3 + 7) {
      for (const uint32_t context : {1u, 1000u, 8192u, 131072u}) {
        const auto capacity = capacityForBytes(geometry, bytes, context, 512);
        if (!capacity.ok())
          continue;
        ++cases;
        EXPECT_LE(bytesOf(geometry, *capacity), bytes);
        EXPECT_GT(bytesOf(geometry, *capacity) + both, bytes);
        if (geometry.layers.size() == 2) {
          EXPECT_LE(capacity->slidingPages, capacity->globalPages);
        }
      }
    }
    EXPECT_GT(cases, 20u);
  }
}

TEST(GeometryTest, EachClassGetsHalfOfTheBudget) {
  const Geometry geometry = model(12288, 6144);
  const Capacity capacity = *capacityForBytes(geometry, 1 << 30, 8192, 512);
  EXPECT_NEAR(double(capacity.slidingPages * geometry.pageBytes(PageClass::kSliding)), 0x1p29, 0x1p20);
  EXPECT_NEAR(double(capacity.globalPages * geometry.pageBytes(PageClass::kGlobal)), 0x1p29, 0x1p20);
}

TEST(GeometryTest, OneWholeContextGoesBeforeEvenHalves) {
  const Geometry geometry = model(12288, 6144);
  const Capacity capacity = *capacityForBytes(geometry, 1 << 30, 131072, 512); // 805 MB of global pages
  EXPECT_EQ(capacity.globalPages, 131072u / 32);
  EXPECT_GT(capacity.slidingPages, 16u * 19); // sixteen windows still
  // Not at the price of the one sequence's window.
  const Capacity little = *capacityForBytes(geometry, 100 << 20, 131072, 512);
  EXPECT_EQ(little.slidingPages, 16u + 3 + 16);
  EXPECT_LT(little.globalPages, 131072u / 32);
}

TEST(GeometryTest, ABudgetTooSmallForOneStepIsAnError) {
  const Geometry geometry = model(12288, 6144);
  const uint64_t least = (16 + 3 + 16) * 32 * (12288ull + 6144);
  const auto capacity = capacityForBytes(geometry, least, 131072, 512);
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->slidingPages, 35u);
  EXPECT_EQ(capacity->globalPages, 35u);
  const auto less = capacityForBytes(geometry, least - 1, 131072, 512);
  EXPECT_EQ(less.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(less.status().message(),
            "K/V memory of 20643839 bytes is too small: one sequence with its window and one "
            "step takes 20643840");
  EXPECT_TRUE(capacityForBytes(geometry, 2 * 32 * (12288ull + 6144), 64, 512).ok())
      << "a short context needs less";
}

} // namespace
} // namespace g4::kv

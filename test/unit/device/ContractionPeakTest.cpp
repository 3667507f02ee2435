#include "runtime/device/cpu/ContractionPeak.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

namespace g4::device {
namespace {

TEST(ContractionPeakTest, EveryLayoutHasOneAndFewerInstructionsAreFaster) {
  const auto features = cpuFeatures();
  ThreadTeam team(1);
  // The best of several: the machine may be busy.
  const auto best = [&](const char *layout) {
    double peak = 0;
    for (int i = 0; i < 5; ++i)
      peak = std::max(peak, contractionPeak(team, features, module::packedLayout(layout)));
    return peak;
  };
  for (const module::PackedLayout &layout : module::kPackedLayouts)
    EXPECT_GT(contractionPeak(team, features, &layout), 1e8) << layout.name;
  EXPECT_GT(best("q4_0"), best("q6_k")) << "one scale of a block, and two";
  EXPECT_GT(best("q4_0"), best("f32")) << "bytes, and floats";
}

TEST(ContractionPeakTest, CodeOfAnUnknownLevelHasNone) {
  ThreadTeam team(1);
  EXPECT_EQ(contractionPeak(team, {}, nullptr), 0);
}

} // namespace
} // namespace g4::device

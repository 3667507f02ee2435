#include "runtime/device/Device.h"

#include <gtest/gtest.h>

namespace g4::device {
namespace {

const std::vector<VariantNeeds> kVariants = {{"avx512-vnni", "cpu", {"avx512f", "avx512vnni"}},
                                             {"avx-vnni", "cpu", {"avx2", "avxvnni"}},
                                             {"x86-64-v3", "cpu", {"avx2", "fma"}}};
using Have = std::vector<std::string>;

TEST(VariantTest, TheFirstThatFitsIsChosen) {
  auto chosen = chooseVariant(kVariants, Have{"avx2", "fma", "avxvnni"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 1u);
  chosen = chooseVariant(kVariants, Have{"avx2", "fma"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 2u);
}

TEST(VariantTest, RefusalSaysWhatIsNeededAndWhatIsHere) {
  auto chosen = chooseVariant(kVariants, Have{"avx2"});
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), Code::kIncompatible);
  for (const char *part : {"'avx512-vnni' needs avx512f avx512vnni", "'avx-vnni' needs avx2 avxvnni",
                           "'x86-64-v3' needs avx2 fma", " with avx2"})
    EXPECT_NE(chosen.status().message().find(part), std::string::npos) << chosen.status().message();
}

TEST(VariantTest, AWantedVariantIsTakenEvenIfABetterOneFits) {
  auto chosen = chooseVariant(kVariants, Have{"avx2", "fma", "avxvnni"}, "x86-64-v3");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 2u);
}

TEST(VariantTest, AWantedVariantThatDoesNotRunHereIsRefusedWithWhatIsMissing) {
  auto chosen = chooseVariant(kVariants, Have{"avx2", "fma"}, "avx-vnni");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), Code::kIncompatible);
  EXPECT_NE(chosen.status().message().find("needs avxvnni"), std::string::npos);
}

TEST(VariantTest, AnUnknownVariantIsABadArgument) {
  auto chosen = chooseVariant(kVariants, Have{"avx2"}, "neon");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), Code::kInvalidArgument);
}

TEST(VariantTest, EachArchitectureTakesItsOwn) {
  auto both = kVariants;
  both.push_back({"armv8.2-dotprod", "cpu", {"neon", "dotprod"}});
  auto chosen = chooseVariant(both, Have{"neon", "dotprod", "i8mm"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 3u);
  chosen = chooseVariant(both, Have{"avx2", "fma"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 2u);
  EXPECT_FALSE(chooseVariant(both, Have{"neon"}).ok());
}

TEST(VariantTest, ForeignCodeNeverRuns) {
  const std::vector<VariantNeeds> variants = {{"sm_90", "cuda", {}}};
  EXPECT_FALSE(chooseVariant(variants, Have{"avx2"}).ok());
  EXPECT_FALSE(chooseVariant({}, Have{"avx2"}).ok());
}

} // namespace
} // namespace g4::device

#include "runtime/api/Report.h"
#include "test/unit/api/ToyFile.h"

namespace g4::api {
namespace {

using ReportTest = ToyFile;

TEST_F(ReportTest, SaysWhatTheArtifactHolds) {
  auto report = inspect(path, /*verify=*/true);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->vocabulary, engine::kToyVocabulary);
  EXPECT_EQ(report->layers.size(), 2u);
  ASSERT_EQ(report->programs.size(), 1u);
  const ProgramReport &step = report->programs[0];
  EXPECT_EQ(step.name, "step");
  ASSERT_EQ(step.dispatches.size(), 4u);
  EXPECT_EQ(step.dispatches[0].set, "rows");
  EXPECT_EQ(step.dispatches[2].kernel, "toy_attend");
  EXPECT_TRUE(step.dispatches[2].barrierBefore);
  EXPECT_EQ(step.macsRows, 1000u);
  EXPECT_EQ(step.macsTail, 100u);
  EXPECT_EQ(step.macsLogits, 10u);
  ASSERT_EQ(report->kv.size(), 2u);
  EXPECT_EQ(report->kv[0].bytesPerToken, 2 * 4 * sizeof(float)); // a key and a value of 4 floats
  ASSERT_EQ(report->places.size(), 1u);
  EXPECT_EQ(report->places[0].bytes, engine::kToyVocabulary * sizeof(float));
  ASSERT_EQ(report->variants.size(), 1u);
  EXPECT_TRUE(report->variants[0].runsHere);
}

TEST_F(ReportTest, ReadsArtifactsThatDoNotRunHere) {
  write({.object = G4_TOY_10, .weightsMissing = true, .features = {"avx9000"}});
  auto report = inspect(path, false);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->variants[0].runsHere);
  EXPECT_TRUE(report->weightsMissing);
}

TEST_F(ReportTest, WhatIsNoArtifactIsRefused) {
  EXPECT_FALSE(inspect(G4_TOY_10, false).ok());
  EXPECT_FALSE(inspect(path + ".absent", false).ok());
}

} // namespace
} // namespace g4::api

#include "tools/g4run/ReportText.h"

#include <gtest/gtest.h>

namespace g4::tool {
namespace {

TEST(ReportTextTest, BytesHaveAUnitOfTheirSize) {
  EXPECT_EQ(bytesText(0), "0 B");
  EXPECT_EQ(bytesText(1023), "1023 B");
  EXPECT_EQ(bytesText(1536), "1.50 KiB");
  EXPECT_EQ(bytesText(uint64_t(3) << 30), "3.00 GiB");
}

TEST(ReportTextTest, OneIsSingular) {
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(2, "token"), "2 tokens");
}

TEST(ReportTextTest, EqualLayersShareTheirLines) {
  api::Report report{};
  report.layers = {
      {true, true, 0, 4, 1, 32, 64, 0}, {true, true, 1, 4, 1, 32, 64, 0}, {false, true, 2, 4, 1, 64, 64, 0}};
  api::ProgramReport step{};
  step.name = "step";
  for (int32_t layer : {0, 1, 2})
    for (int i = 0; i < 2; ++i)
      step.dispatches.push_back({i ? "mlp" : "attention", layer, i == 0 || layer == 2, "rows", 1, 1, 0, {}});
  report.programs.push_back(step);
  const std::string text = reportText(report);
  EXPECT_NE(text.find("0-1     sliding"), std::string::npos) << text;
  EXPECT_NE(text.find("layer 0 1: 2 dispatches, 1 barriers"), std::string::npos) << text;
  EXPECT_NE(text.find("layer 2: 2 dispatches, 2 barriers"), std::string::npos) << text;
  EXPECT_NE(text.find("step: 6 dispatches, 4 barriers"), std::string::npos) << text;
}

TEST(ReportTextTest, LongNamesAreNotCut) {
  api::Report report{};
  report.name = std::string(600, 'n');
  EXPECT_NE(reportText(report).find(report.name), std::string::npos);
}

} // namespace
} // namespace g4::tool

#include "tools/g4run/Progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace g4::tool {
namespace {

/// What is said of four pieces of 30 ms each, where standard error is no terminal.
std::string said(Progress::Interval lines) {
  testing::internal::CaptureStderr();
  {
    Progress progress("kl", "windows", lines);
    for (int done = 1; done <= 4; ++done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      progress.update(uint64_t(done), 4);
    }
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressTest, LinesComeAtTheInterval) {
  const std::string text = said(std::chrono::milliseconds(50));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("kl   50 %  2/4 windows"), std::string::npos) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos) << text;
}

TEST(ProgressTest, AShortTaskAndOneWithoutLinesSayNothing) {
  EXPECT_EQ(said(Progress::kLines), "");
  EXPECT_EQ(said(Progress::kNone), "");
}

} // namespace
} // namespace g4::tool

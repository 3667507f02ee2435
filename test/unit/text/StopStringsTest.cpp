#include "runtime/text/StopStrings.h"

#include <gtest/gtest.h>

namespace g4::text {
namespace {

StopStrings make(std::vector<std::string> stops) {
  auto matcher = StopStrings::create(std::move(stops));
  EXPECT_TRUE(matcher.ok()) << matcher.status().message();
  return *std::move(matcher);
}

TEST(StopStringsTest, TextBeforeTheMatchIsShownAndNothingAfterIt) {
  StopStrings stops = make({"END"});
  EXPECT_EQ(stops.push("one END two"), "one ");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "END");
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStringsTest, APossibleMatchIsHeldBackAndReleasedWhenItFails) {
  StopStrings stops = make({"END"});
  EXPECT_EQ(stops.push("xE"), "x");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("E"), "EN"); // the last E may begin another
  EXPECT_EQ(stops.push("ND!"), "");
  EXPECT_TRUE(stops.stopped());
}

TEST(StopStringsTest, FinishReleasesAnUnfinishedMatch) {
  StopStrings stops = make({"</answer>"});
  EXPECT_EQ(stops.push("done</ans"), "done");
  EXPECT_EQ(stops.finish(), "</ans");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStringsTest, TheFirstToBeCompleteWinsThenTheLongest) {
  StopStrings nested = make({"abcdef", "cd"});
  EXPECT_EQ(nested.push("xxabcdef"), "xxab");
  EXPECT_EQ(nested.matched(), "cd");
  StopStrings tied = make({"b", "ab"});
  EXPECT_EQ(tied.push("xab"), "x");
  EXPECT_EQ(tied.matched(), "ab");
}

TEST(StopStringsTest, EveryWayOfCuttingTheTextGivesTheSameResult) {
  const std::string text = "aab aabaac aabaaab tail";
  for (const std::vector<std::string> &list :
       {std::vector<std::string>{"aabaaab"}, {"aabaab", "baac "}, {"zzz"}, {"tail", "ai"}, {"\n\n", " "}}) {
    StopStrings whole = make(list);
    std::string expected = whole.push(text);
    expected += whole.finish();
    for (size_t step = 1; step <= text.size(); ++step) {
      StopStrings stops = make(list);
      std::string out;
      for (size_t i = 0; i < text.size(); i += step)
        out += stops.push(std::string_view(text).substr(i, step));
      out += stops.finish();
      EXPECT_EQ(out, expected) << step;
      EXPECT_EQ(stops.matched(), whole.matched());
    }
  }
}

TEST(StopStringsTest, WithoutStopStringsEverythingPasses) {
  StopStrings stops = make({});
  EXPECT_EQ(stops.push("anything"), "anything");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStringsTest, EmptyAndHugeStopStringsAreErrors) {
  EXPECT_FALSE(StopStrings::create({""}).ok());
  EXPECT_FALSE(StopStrings::create({std::string(2000, 'x')}).ok());
}

} // namespace
} // namespace g4::text

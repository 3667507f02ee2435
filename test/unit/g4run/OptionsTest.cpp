#include "tools/g4run/Options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace g4::tool {
namespace {

Parsed parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "g4run");
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Parsed parsed = parseOptions(int(argv.size()), argv.data());
  testing::internal::GetCapturedStdout();
  const std::string said = testing::internal::GetCapturedStderr();
  if (parsed.exitCode == kExitBadUsage) {
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  } else {
    EXPECT_EQ(said, "");
  }
  return parsed;
}

TEST(OptionsTest, DefaultsLeaveSamplingToTheModelFile) {
  const Parsed parsed = parse({"m.g4m", "-p", "Hi"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->model, "m.g4m");
  EXPECT_EQ(parsed.options->prompt, "Hi");
  EXPECT_FALSE(parsed.options->temperature || parsed.options->topK || parsed.options->topP ||
               parsed.options->minP);
  EXPECT_FALSE(parsed.options->maxTokens);
  EXPECT_FALSE(parsed.options->raw);
}

TEST(OptionsTest, IdsAndBiasesAreRead) {
  const Parsed parsed = parse({"m.g4m", "--ids", "2,17,301", "--logit-bias", "5=-1.5", "--logit-bias", "7+2",
                               "--logit-bias", "8-inf", "-n", "0"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->ids, (std::vector<int32_t>{2, 17, 301}));
  ASSERT_EQ(parsed.options->logitBias.size(), 3u);
  EXPECT_EQ(parsed.options->logitBias[0], (std::pair<int32_t, float>(5, -1.5f)));
  EXPECT_EQ(parsed.options->logitBias[1], (std::pair<int32_t, float>(7, 2.0f)));
  EXPECT_TRUE(std::isinf(parsed.options->logitBias[2].second));
  EXPECT_EQ(parsed.options->maxTokens, 0u);
}

TEST(OptionsTest, RepeatedOptionsDoNotSwallowThePositional) {
  const Parsed parsed = parse({"--stop", "a", "--stop", "b", "m.g4m", "-p", "x", "-n", "-1"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parsed.options->model, "m.g4m");
  EXPECT_FALSE(parsed.options->maxTokens);
}

TEST(OptionsTest, SubcommandsHaveTheirOwnOptions) {
  Parsed parsed = parse({"inspect", "m.g4m", "--json", "--verify"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->command, Options::Command::kInspect);
  EXPECT_TRUE(parsed.options->json && parsed.options->verify);
  EXPECT_EQ(parsed.options->model, "m.g4m");
  parsed = parse({"perplexity", "m.g4m", "t.txt", "-c", "128"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->command, Options::Command::kPerplexity);
  EXPECT_EQ(parsed.options->window, 128u);
  EXPECT_EQ(parsed.options->text, "t.txt");
}

TEST(OptionsTest, WeightSeedsAreRead) {
  const Parsed parsed = parse({"m.g4m", "--ids", "2", "--weights=seed:17"});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->weightSeed, 17u);
}

TEST(OptionsTest, BadUsageIsOneLineAndExitCode2) {
  const std::vector<std::vector<std::string>> bad = {{},
                                                     {"m.g4m"},
                                                     {"-p", "x"},
                                                     {"m.g4m", "-p", "x", "--ids", "2"},
                                                     {"m.g4m", "--ids", "2,x"},
                                                     {"m.g4m", "--ids", "2,-3"},
                                                     {"m.g4m", "--ids", ""},
                                                     {"m.g4m", "-p", "x", "--no-such-option"},
                                                     {"m.g4m", "-p", "x", "-n", "-2"},
                                                     {"m.g4m", "-p", "x", "-n", "many"},
                                                     {"m.g4m", "-p", "x", "--logit-bias", "3"},
                                                     {"m.g4m", "-p", "x", "--weights", "17"},
                                                     {"m.g4m", "--ids", "2", "--raw"},
                                                     {"m.g4m", "-p", "x", "--raw", "--system", "y"},
                                                     {"inspect"},
                                                     {"perplexity", "m.g4m"}};
  for (const auto &arguments : bad) {
    const Parsed parsed = parse(arguments);
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exitCode, kExitBadUsage);
  }
}

TEST(OptionsTest, HelpIsNoError) {
  EXPECT_EQ(parse({"--help"}).exitCode, kExitOk);
  EXPECT_EQ(parse({"inspect", "--help"}).exitCode, kExitOk);
  EXPECT_EQ(parse({"--version"}).exitCode, kExitOk);
}

} // namespace
} // namespace g4::tool

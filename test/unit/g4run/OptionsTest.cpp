#include "tools/g4run/Options.h"
#include "tools/common/Cli.h"
#include "tools/g4run/Program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace g4::tool {
namespace {

/// What a command line without a command asks for. CLI11's errors pass.
GenerateOptions generating(std::vector<std::string> arguments) {
  CLI::App app("", "g4run");
  GenerateOptions options;
  addGenerateFlags(app, options);
  std::reverse(arguments.begin(), arguments.end()); // as CLI11 wants them
  app.parse(arguments);
  checkGenerate(options);
  return options;
}

/// The whole program's: what is bad is said in one line.
Parsed parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "g4run");
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Parsed parsed = parseCommandLine(int(argv.size()), argv.data());
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
  const GenerateOptions options = generating({"m.g4m", "-p", "Hi"});
  EXPECT_EQ(options.model.path, "m.g4m");
  EXPECT_EQ(options.prompt, "Hi");
  EXPECT_FALSE(options.sampling.temperature || options.sampling.topK || options.sampling.topP ||
               options.sampling.minP);
  EXPECT_FALSE(options.maxTokens);
  EXPECT_FALSE(options.raw);
}

TEST(OptionsTest, IdsAndBiasesAreRead) {
  const GenerateOptions options = generating({"m.g4m", "--ids", "2,17,301", "--logit-bias", "5=-1.5",
                                              "--logit-bias", "7+2", "--logit-bias", "8-inf", "-n", "0"});
  EXPECT_EQ(options.ids, (std::vector<int32_t>{2, 17, 301}));
  ASSERT_EQ(options.sampling.logitBias.size(), 3u);
  EXPECT_EQ(options.sampling.logitBias[0], (std::pair<int32_t, float>(5, -1.5f)));
  EXPECT_EQ(options.sampling.logitBias[1], (std::pair<int32_t, float>(7, 2.0f)));
  EXPECT_TRUE(std::isinf(options.sampling.logitBias[2].second));
  EXPECT_EQ(options.maxTokens, 0u);
}

TEST(OptionsTest, RepeatedOptionsDoNotSwallowThePositional) {
  const GenerateOptions options = generating({"--stop", "a", "--stop", "b", "m.g4m", "-p", "x", "-n", "-1"});
  EXPECT_EQ(options.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.model.path, "m.g4m");
  EXPECT_FALSE(options.maxTokens);
}

TEST(OptionsTest, EveryCommandHasAParserAndADescription) {
  for (const std::vector<std::string> &arguments :
       std::vector<std::vector<std::string>>{{"chat", "m.g4m", "--think"},
                                             {"inspect", "m.g4m", "--json", "--verify"},
                                             {"perplexity", "m.g4m", "t.txt", "-c", "128"},
                                             {"kl", "m.g4m", "--reference", "n.g4m", "t.txt"},
                                             {"tokenize", "m.g4m", "text", "--show"},
                                             {"bench", "m.g4m", "--batch", "1,2", "--depth", "0"},
                                             {"perplexity", "m.g4m", "t.txt", "-c", "4"},
                                             {"m.g4m", "-p", "x", "--temp", "0", "--top-p", "1"},
                                             {"cache", "list"},
                                             {"cache", "clear"},
                                             {"completion", "zsh"},
                                             {"m.g4m", "--jsonl", "in", "out"},
                                             {"--jsonl", "in", "out", "m.g4m"}}) {
    const Parsed parsed = parse(arguments);
    EXPECT_TRUE(parsed.run) << arguments[0];
    EXPECT_EQ(parsed.exitCode, kExitOk) << arguments[0];
  }
}

TEST(OptionsTest, ADescriptionHasNamesValuesAndChoices) {
  CLI::App app("Does things", "tool");
  std::string file, shell;
  uint32_t count = 0;
  bool flag = false;
  app.add_option("file", file, "A file")->type_name("FILE")->required();
  app.add_option("-n,--number", count, "A number")->check(CLI::Range(1, 3));
  app.add_flag("--flag", flag, "A flag");
  app.add_flag("--secret", flag, "Not shown")->group("");
  app.add_subcommand("sub", "A command")
      ->add_option("--shell", shell, "A shell")
      ->check(CLI::IsMember({"a", "b"}));
  const CommandSpec spec = describe(app);
  ASSERT_EQ(spec.positionals.size(), 1u);
  EXPECT_TRUE(spec.positionals[0].takesPath());
  ASSERT_EQ(spec.options.size(), 3u); // --help is the first
  EXPECT_EQ(spec.options[1].names, (std::vector<std::string>{"-n", "--number"}));
  EXPECT_EQ(spec.options[1].value, "N");
  EXPECT_EQ(spec.options[2].value, "");
  ASSERT_EQ(spec.commands.size(), 1u);
  EXPECT_EQ(spec.commands[0].options[1].choices, (std::vector<std::string>{"a", "b"}));
  for (const char *shellName : {"bash", "zsh", "fish"})
    EXPECT_EQ(completionScript(spec, shellName).find("secret"), std::string::npos);
  EXPECT_EQ(completionScript(spec, "tcsh"), "");
}

TEST(OptionsTest, SizesHaveUnits) {
  EXPECT_EQ(*parseSize("1000"), 1000u);
  EXPECT_EQ(*parseSize("3K"), 3072u);
  EXPECT_EQ(*parseSize("50G"), uint64_t(50) << 30);
  EXPECT_EQ(*parseSize("50GiB"), uint64_t(50) << 30);
  EXPECT_EQ(*parseSize("1TB"), uint64_t(1) << 40);
  for (const char *text : {"", "G", "-1", "3X", "3GG", "99999999999999999999", "99999999T", "1.5G", "B"})
    EXPECT_FALSE(parseSize(text).ok()) << text;
}

TEST(OptionsTest, WeightSeedsAreRead) {
  EXPECT_EQ(generating({"m.g4m", "--ids", "2", "--weights=seed:17"}).model.weightSeed, 17u);
}

TEST(OptionsTest, SeedsAreOf64Bits) {
  EXPECT_EQ(generating({"m.g4m", "--ids", "2", "--seed=18446744073709551615"}).sampling.seed, ~uint64_t(0));
}

TEST(OptionsTest, CompileOptionsArePassedOn) {
  const std::string words = "--activations f32 --weights=none";
  EXPECT_EQ(generating({"m.gguf", "--ids", "2", "--compile-options", words}).model.compileOptions, words);
}

TEST(OptionsTest, WordsMayBeQuoted) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(*splitWords("  a\tb=c\n"), (Words{"a", "b=c"}));
  EXPECT_EQ(*splitWords("--rules='a b' \"it's\"'\"'"), (Words{"--rules=a b", "it's\""}));
  EXPECT_EQ(*splitWords("'' x"), (Words{"", "x"}));
  EXPECT_TRUE(splitWords(" ")->empty());
  EXPECT_FALSE(splitWords("a 'b").ok());
}

TEST(OptionsTest, BadUsageIsOneLineAndExitCode2) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"m.g4m"},
      {"-p", "x"},
      {"m.g4m", "-p", "x", "--ids", "2"},
      {"m.g4m", "--ids", "2,x"},
      {"m.g4m", "--ids", "2,-3"},
      {"m.g4m", "--ids", ""},
      {"m.g4m", "-p", "x", "--no-such-option"},
      {"m.g4m", "-p", "x", "-n", "-2"},
      {"m.g4m", "-p", "x", "--seed", "-1"},
      {"m.g4m", "-p", "x", "--seed", "18446744073709551616"},
      {"m.gguf", "-p", "x", "--compile-options=-o x.g4m"},
      {"m.gguf", "-p", "x", "--compile-options=--kv=f32 --emit=gguf"},
      {"inspect", "m.gguf", "--compile-options=-dry-run"},
      {"inspect", "m.gguf", "--compile-options='-o' x.g4m"},
      {"inspect", "m.gguf", "--compile-options=--kv='f32"},
      {"m.g4m", "-p", "x", "-n", "many"},
      {"m.g4m", "-p", "x", "--logit-bias", "3"},
      {"m.g4m", "-p", "x", "--weights", "17"},
      {"m.g4m", "--ids", "2", "--raw"},
      {"m.g4m", "-p", "x", "--raw", "--system", "y"},
      {"inspect"},
      {"m.g4m", "-p", "x", "--jsonl", "a", "b"},
      {"m.g4m", "--jsonl", "a"},
      {"m.g4m", "--jsonl", "a", "b", "--print-ids"},
      {"m.g4m", "-p", "x", "--cache-limit", "much"},
      {"perplexity", "m.g4m"},
      {"kl", "m.g4m", "t.txt"},
      {"chat"},
      {"tokenize"},
      {"tokenize", "m.g4m", "--plain", "--detokenize"},
      {"bench", "m.g4m", "--prefill", "0", "--decode", "0"},
      {"bench", "m.g4m", "--batch", "x"},
      {"bench", "m.g4m", "--prefill", "8,,9"},
      {"bench", "m.g4m", "--prefill", "8,"},
      {"bench", "m.g4m", "--depth", ""},
      {"bench", "m.g4m", "--depth", "-1"},
      {"bench", "m.g4m", "--profile", "-"},
      {"perplexity", "m.g4m", "t.txt", "-c", "0"},
      {"kl", "m.g4m", "--reference", "n.g4m", "t.txt", "-c", "3"},
      {"chat", "m.g4m", "--top-k", "-1"},
      {"m.g4m", "-p", "x", "--temp", "-1"},
      {"m.g4m", "-p", "x", "--temp", "nan"},
      {"m.g4m", "-p", "x", "--top-p", "2"},
      {"m.g4m", "-p", "x", "--min-p", "-0.1"},
      {"m.g4m", "-p", "x", "--repeat-penalty", "0"},
      {"m.g4m", "-p", "x", "--presence-penalty", "inf"},
      {"m.g4m", "-p", "x", "--logit-bias", "3=inf"},
      {"cache"},
      {"cache", "burn"},
      {"completion", "tcsh"}};
  for (const auto &arguments : bad) {
    const Parsed parsed = parse(arguments);
    EXPECT_FALSE(parsed.run);
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

/// The command line of g4run.
#pragma once

#include "tools/common/CommandLine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace g4::tool {

struct Options {
  enum class Command { kGenerate, kInspect, kPerplexity } command = Command::kGenerate;
  std::string model;

  // The prompt: one of these.
  std::optional<std::string> prompt, file, chat;
  std::vector<int32_t> ids;
  bool raw = false, think = false;
  std::string system;

  // Generation. What is not given comes from the model file.
  std::optional<uint32_t> maxTokens;
  std::optional<float> temperature, topP, minP;
  std::optional<int32_t> topK;
  float repeatPenalty = 1, presencePenalty = 0, frequencyPenalty = 0;
  std::optional<uint64_t> seed;
  std::vector<std::string> stops;
  std::vector<std::pair<int32_t, float>> logitBias;
  bool ignoreEos = false, noSuppress = false;

  // Output.
  std::string logits, taps;
  bool printIds = false, stats = false;

  // Machine.
  uint32_t threads = 0, chunk = 0, context = 0;
  std::string variant, forcedExperts;
  std::optional<uint64_t> weightSeed;

  // inspect, perplexity
  bool json = false, verify = false;
  std::string text;
  uint32_t window = 512;
};

/// The options, or the code to end with: what there was to say has been said.
struct Parsed {
  std::optional<Options> options;
  int exitCode = kExitOk;
};
Parsed parseOptions(int argc, char **argv);

} // namespace g4::tool

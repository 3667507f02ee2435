/// Options that commands of g4run share, and those of generating.
#pragma once

#include "runtime/api/g4.h"
#include "tools/common/CommandLine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace g4::tool {

/// How to get a model ready: see Model.h.
struct ModelFlags {
  std::string path; ///< an artifact, or a GGUF file that is compiled first
  uint32_t threads = 0, context = 0;
  std::string variant;
  std::optional<uint64_t> weightSeed;
  // For a GGUF file.
  std::string compileOptions;
  uint64_t cacheLimit = uint64_t(50) << 30; ///< bytes
};
/// Only what finds or makes the artifact: for commands that do not run the model.
void addArtifactFlags(CLI::App &app, ModelFlags &flags);
/// `contextFlag`: what the command calls the limit of a sequence.
void addModelFlags(CLI::App &app, ModelFlags &flags, const char *contextFlag = "--context");

/// What is not given comes from the model file.
struct SamplingFlags {
  std::optional<float> temperature, topP, minP;
  std::optional<int32_t> topK;
  float repeatPenalty = 1, presencePenalty = 0, frequencyPenalty = 0;
  std::optional<uint64_t> seed; ///< random if not given
  std::vector<std::pair<int32_t, float>> logitBias;

  api::SamplingOptions over(api::SamplingOptions defaults) const;
  /// Errors: kInvalidArgument where `model` has no token that a bias is for.
  Status fits(const api::Model &model) const;
};
void addSamplingFlags(CLI::App &app, SamplingFlags &flags);

struct GenerateOptions {
  ModelFlags model;

  // The prompt: one of these.
  std::optional<std::string> prompt, file, chat;
  std::vector<int32_t> ids;
  std::vector<std::string> jsonl; ///< input and output file; empty: not asked for
  bool raw = false, think = false;
  std::string system;

  std::optional<uint32_t> maxTokens;
  SamplingFlags sampling;
  std::vector<std::string> stops;
  bool ignoreEos = false, noSuppress = false;

  std::string logits, taps, forcedExperts;
  bool printIds = false, stats = false;
  uint32_t chunk = 0, parallel = 8;

  /// Whether there is a prompt of any kind.
  bool prompted() const { return prompt || file || chat || !ids.empty() || !jsonl.empty(); }
};
/// Declares them on `app`. Throws CLI11's errors while parsing; checkGenerate throws what can be said only in
/// the end.
void addGenerateFlags(CLI::App &app, GenerateOptions &options);
void checkGenerate(const GenerateOptions &options);

/// -n: none is "until the model stops".
void addMaxTokens(CLI::App &app, std::optional<uint32_t> &maxTokens);

/// -c: tokens of the windows into which a text is cut.
void addWindow(CLI::App &app, uint32_t &window);

/// Bytes: "300M", "50G", "1000". Errors: kInvalidArgument.
Result<uint64_t> parseSize(const std::string &text);

} // namespace g4::tool

/// The command line of g4-runner: a part of g4run's, with the same names and meanings.
#pragma once

#include "tools/common/CommandLine.h"

#include <optional>

namespace g4::runner {

struct Options {
  std::string model;
  std::vector<int32_t> ids; ///< the prompt; empty only with `bench`
  uint32_t maxTokens = 0;
  std::string logits; ///< file to write; empty: none
  bool bench = false, stats = false;

  uint32_t threads = 0, chunk = 0, context = 0;
  std::string variant;
  std::optional<uint64_t> weightSeed;
};

/// The options, or the code to end with: what there was to say has been said.
struct Parsed {
  std::optional<Options> options;
  tool::ExitCode exitCode = tool::kExitOk;
};
Parsed parseOptions(int argc, char **argv);

} // namespace g4::runner

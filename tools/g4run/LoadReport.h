/// What g4run loadtest found, as text and as JSON.
#pragma once

#include "tools/g4run/LoadAnswer.h"
#include "tools/g4run/LoadPlan.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace g4::tool {

/// The smallest of `sorted` (ascending, not empty) that at least `percent` of 100 values do not exceed: one
/// that was measured, nothing in between. `percent`: 1 to 100.
double percentile(std::span<const double> sorted, unsigned percent);

/// Adds up outcomes.
class LoadTally {
public:
  /// `promptTokens`: what was sent, which counts where the server does not say what it read.
  void add(const LoadOutcome &outcome, uint64_t promptTokens);

  struct Errors {
    uint64_t count = 0;
    std::string first; ///< message
  };
  uint64_t sent() const { return complete + cancelled + failed + unfinished; }

  uint64_t complete = 0, cancelled = 0, failed = 0, unfinished = 0;
  uint64_t promptTokens = 0, answerTokens = 0; ///< of answers that began
  std::optional<uint64_t> cachedTokens = {};   ///< as far as servers say
  std::vector<double> firstToken = {}, interToken = {}, perToken = {}, request = {}; ///< seconds
  std::map<std::string, Errors> errors = {};                                         ///< by kind
};

struct LoadReport {
  std::string server, model;
  LoadPlan plan = {};
  double seconds = 0; ///< from the begin to the last end
  LoadTally tally = {};
};

std::string loadText(const LoadReport &report);
/// One JSON object: docs/commands/loadtest.md.
std::string loadJson(const LoadReport &report);

} // namespace g4::tool

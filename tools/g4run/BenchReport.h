/// What g4run bench found, as text and as JSON.
#pragma once

#include "runtime/api/Bench.h"

#include <string>
#include <vector>

namespace g4::tool {

struct Measured {
  api::BenchCase what;
  api::BenchResult result; ///< its seconds ascending

  const char *name() const; ///< "prefill", "decode"
  double medianSeconds() const;
  double readBandwidth() const; ///< median, bytes per second
  /// Tokens per second, of all sequences, of a repetition that takes `seconds`.
  double rate(double seconds) const;
};

struct BenchReport {
  std::string model, variant;
  unsigned threads = 0;
  double loadSeconds = 0, firstStepSeconds = 0;
  std::vector<Measured> tests = {};
  uint64_t peakBytes = 0; ///< known in the end
};

std::string headingText(const BenchReport &report);
std::string rowText(const Measured &test);
/// What follows the rows: for each test the `most` kernels that take longest, and the rest in one line.
std::string kernelsText(const BenchReport &report, size_t most);
/// One JSON object: docs/commands/bench.md.
std::string benchJson(const BenchReport &report);

} // namespace g4::tool

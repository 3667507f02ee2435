/// What a load test asks for. All of it follows from one seed, whatever the server does and how long it
/// takes.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace g4::tool {

/// Drawn from the bits of `random` by formulas of our own: the standard library's distributions differ
/// between libraries.
using Random = std::mt19937_64;
double drawUnit(Random &random);                                        ///< [0, 1)
uint32_t drawWhole(Random &random, uint32_t least, uint32_t most);      ///< both included
double drawExponential(Random &random, double mean);                    ///< gaps of a Poisson process
double drawLognormal(Random &random, double mean, double logDeviation); ///< `mean` is that of the values

/// How lengths in tokens are distributed.
class Lengths {
public:
  explicit Lengths(uint32_t tokens) : text_(std::to_string(tokens)), least_(tokens), most_(tokens) {}
  /// "128", "64:512" or "lognormal:200". Errors: kInvalidArgument.
  static Result<Lengths> parse(const std::string &text);
  /// From 1 to kMost.
  uint32_t draw(Random &random) const;
  /// As parse() takes it.
  const std::string &text() const { return text_; }

  static constexpr uint32_t kMost = 1 << 20; ///< more than any model's context
  /// Of a length's logarithm: a twentieth of the prompts is then more than three times as long as the
  /// average.
  static constexpr double kLogDeviation = 1;

private:
  std::string text_;
  uint32_t least_, most_;
  std::optional<double> mean_; ///< of a lognormal distribution
};

struct PlannedRequest {
  uint64_t number = 0; ///< from 0
  double gap = 0;      ///< seconds after the one before, in a test with a rate
  std::vector<int32_t> prompt = {};
  uint32_t answerTokens = 1;
  std::optional<uint32_t> cancelAfter = {}; ///< pieces of the answer; 0: once it is asked for
  uint64_t seed = 0;                        ///< for sampling
};

struct LoadPlan {
  uint64_t seed = 0;
  uint32_t clients = 4; ///< each asks when it has its answer; without a rate
  double rate = 0;      ///< requests per second, whoever still waits; 0: there are clients
  Lengths promptTokens{128}, answerTokens{64};
  uint32_t prefixTokens = 0; ///< in front of each prompt's own
  uint32_t prefixes = 1;     ///< different ones, chosen equally often
  double cancelled = 0;      ///< part of the requests

  /// Does not depend on other requests.
  PlannedRequest request(uint64_t number) const;
};

/// The body of a request to /v1/completions.
std::string bodyOf(const PlannedRequest &request, const std::string &model);

} // namespace g4::tool

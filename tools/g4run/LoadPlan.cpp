#include "tools/g4run/LoadPlan.h"
#include "tools/common/CommandLine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace g4::tool {
namespace {

/// Prompts are made of these ids: below them vocabularies keep control tokens and bytes, and any has so many.
constexpr uint32_t kFirstId = 512, kLastId = 1023;

/// Unrelated bits for each (seed, kind, number).
enum Kind : uint32_t { kRequest, kPrefix };
Random randomOf(uint64_t seed, Kind kind, uint64_t number) {
  std::seed_seq words{uint32_t(seed), uint32_t(seed >> 32), uint32_t(kind), uint32_t(number),
                      uint32_t(number >> 32)};
  return Random(words);
}

void addIds(std::vector<int32_t> &ids, Random &random, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(int32_t(drawWhole(random, kFirstId, kLastId)));
}

Result<uint32_t> parseLength(const std::string &text) {
  const auto value = parseNumber<uint32_t>(text);
  if (!value || *value < 1 || *value > Lengths::kMost)
    return invalidArgument(noNumber(text, 1u, Lengths::kMost));
  return *value;
}

} // namespace

double drawUnit(Random &random) { return double(random() >> 11) * 0x1p-53; }

uint32_t drawWhole(Random &random, uint32_t least, uint32_t most) {
  return least + uint32_t(drawUnit(random) * (double(most - least) + 1));
}

double drawExponential(Random &random, double mean) { return -std::log1p(-drawUnit(random)) * mean; }

double drawLognormal(Random &random, double mean, double logDeviation) {
  const double radius = std::sqrt(drawExponential(random, 2)); // Box and Muller's two steps to a normal value
  const double normal = radius * std::cos(2 * std::numbers::pi * drawUnit(random));
  return mean * std::exp(logDeviation * (normal - logDeviation / 2));
}

Result<Lengths> Lengths::parse(const std::string &text) {
  constexpr std::string_view kLognormal = "lognormal:";
  if (text.starts_with(kLognormal)) {
    G4_ASSIGN_OR_RETURN(const uint32_t mean, parseLength(text.substr(kLognormal.size())));
    Lengths out(mean);
    out.text_ = text;
    out.mean_ = mean;
    return out;
  }
  const size_t colon = text.find(':');
  G4_ASSIGN_OR_RETURN(const uint32_t least, parseLength(text.substr(0, colon)));
  Lengths out(least);
  if (colon != std::string::npos) {
    G4_ASSIGN_OR_RETURN(out.most_, parseLength(text.substr(colon + 1)));
  }
  out.text_ = text;
  if (out.most_ < out.least_)
    return invalidArgument(quotedName(text) + " ends before it begins");
  return out;
}

uint32_t Lengths::draw(Random &random) const {
  if (!mean_)
    return drawWhole(random, least_, most_);
  return uint32_t(std::clamp(std::round(drawLognormal(random, *mean_, kLogDeviation)), 1.0, double(kMost)));
}

PlannedRequest LoadPlan::request(uint64_t number) const {
  Random random = randomOf(seed, kRequest, number);
  PlannedRequest out{.number = number, .seed = random() >> 11}; // a whole number in any JSON library
  // Everything is drawn, used or not: an option changes what it is about, and nothing else.
  const double gap = drawExponential(random, 1);
  out.gap = rate > 0 ? gap / rate : 0;
  const bool cancel = drawUnit(random) < cancelled;
  const double cancelAt = drawUnit(random);
  const uint32_t prefix = drawWhole(random, 0, prefixes - 1);
  Random answers = Random(random()), prompts = Random(random());
  out.answerTokens = answerTokens.draw(answers);
  if (cancel)
    out.cancelAfter = uint32_t(cancelAt * out.answerTokens);
  Random shared = randomOf(seed, kPrefix, prefix);
  addIds(out.prompt, shared, prefixTokens);
  addIds(out.prompt, random, promptTokens.draw(prompts));
  return out;
}

std::string bodyOf(const PlannedRequest &request, const std::string &model) {
  return nlohmann::ordered_json{{"model", model},
                                {"prompt", request.prompt},
                                {"max_tokens", request.answerTokens},
                                {"ignore_eos", true},
                                {"seed", request.seed},
                                {"stream", true},
                                {"stream_options", {{"include_usage", true}}}}
      .dump();
}

} // namespace g4::tool

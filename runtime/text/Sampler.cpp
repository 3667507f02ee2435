#include "runtime/text/Sampler.h"

#include "runtime/text/TokenizerFormat.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>

namespace g4::text {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

bool isAllowed(std::span<const uint32_t> allowed, size_t id) {
  return allowed.empty() || (allowed[id / 32] >> (id % 32) & 1);
}

} // namespace

double SampleRandom::next() {
  const uint64_t bits = mixBits(seed + ++counter * 0x9e3779b97f4a7c15ull);
  return double(bits >> 11) * 0x1p-53;
}

Result<Sampler> Sampler::create(SamplingOptions options) {
  const auto outside = [](const char *name, const char *range) {
    return invalidArgument(std::string(name) + " must be " + range);
  };
  // Written so that NaN fails too.
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    return outside("temperature", "a number of at least 0");
  if (options.topK < 0)
    return outside("top-k", "at least 0");
  if (!(options.topP > 0 && options.topP <= 1))
    return outside("top-p", "above 0 and at most 1");
  if (!(options.minP >= 0 && options.minP <= 1))
    return outside("min-p", "from 0 to 1");
  if (!(options.repetitionPenalty > 0 && std::isfinite(options.repetitionPenalty)))
    return outside("repetition penalty", "a number above 0");
  if (!std::isfinite(options.presencePenalty) || !std::isfinite(options.frequencyPenalty))
    return outside("presence and frequency penalty", "finite");
  if (options.penaltyWindow < -1)
    return outside("penalty window", "at least -1");
  for (auto [id, bias] : options.logitBias)
    if (id < 0 || std::isnan(bias) || bias == std::numeric_limits<float>::infinity())
      return outside("logit bias", "a number (or -inf) for a token id");
  return Sampler(std::move(options));
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                                std::span<const uint32_t> allowed) {
  if (logits.empty() || logits.size() > kMaxTokens)
    return invalidArgument("a row of logits has " + std::to_string(logits.size()) + " entries");
  if (!allowed.empty() && allowed.size() != (logits.size() + 31) / 32)
    return invalidArgument("the token mask has " + std::to_string(allowed.size()) + " words for " +
                           std::to_string(logits.size()) + " logits");
  try {
    G4_RETURN_IF_ERROR(collect(logits, allowed));
    G4_RETURN_IF_ERROR(adjust(history, logits.size()));
    candidates_.clear();
    for (size_t id = 0; id < row_.size(); ++id)
      if (row_[id] != kExcluded)
        candidates_.push_back({row_[id], int32_t(id)});
    if (candidates_.empty())
      return invalidArgument("every token is excluded: by the mask, by logit bias or by logits of -inf");
    if (options_.temperature == 0) {
      const auto best =
          std::max_element(candidates_.begin(), candidates_.end(), // the first of equals
                           [](const Candidate &a, const Candidate &b) { return a.logit < b.logit; });
      return best->id;
    }
    return draw(truncate());
  } catch (const std::bad_alloc &) {
    return resourceExhausted("no memory to sample from " + std::to_string(logits.size()) + " logits");
  }
}

Status Sampler::collect(std::span<const float> logits, std::span<const uint32_t> allowed) {
  row_.assign(logits.begin(), logits.end());
  for (size_t id = 0; id < row_.size(); ++id) {
    if (!isAllowed(allowed, id))
      row_[id] = kExcluded;
    else if (std::isnan(row_[id]) || row_[id] == std::numeric_limits<float>::infinity())
      return internalError("the logit of token " + std::to_string(id) + " is " +
                           (std::isnan(row_[id]) ? "NaN" : "infinite"));
  }
  return {};
}

Status Sampler::adjust(std::span<const int32_t> history, size_t vocabulary) {
  for (auto [id, bias] : options_.logitBias) {
    if (size_t(id) >= vocabulary)
      return invalidArgument("logit bias for token " + std::to_string(id) + ", but the vocabulary has " +
                             std::to_string(vocabulary) + " tokens");
    row_[size_t(id)] += bias;
  }
  if (options_.repetitionPenalty == 1 && options_.presencePenalty == 0 && options_.frequencyPenalty == 0)
    return {};
  if (options_.penaltyWindow >= 0 && size_t(options_.penaltyWindow) < history.size())
    history = history.last(size_t(options_.penaltyWindow));
  recent_.clear();
  for (int32_t id : history)
    if (id >= 0 && size_t(id) < vocabulary)
      recent_.push_back(id);
  std::sort(recent_.begin(), recent_.end());
  for (auto it = recent_.begin(); it != recent_.end();) {
    const auto end = std::upper_bound(it, recent_.end(), *it);
    float &logit = row_[size_t(*it)];
    logit = logit > 0 ? logit / options_.repetitionPenalty : logit * options_.repetitionPenalty;
    logit -= options_.presencePenalty + options_.frequencyPenalty * float(end - it);
    it = end;
  }
  return {};
}

void Sampler::sortBest(size_t count) {
  const auto better = [](const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const auto middle = candidates_.begin() + ptrdiff_t(count);
  if (count < candidates_.size())
    std::nth_element(candidates_.begin(), middle, candidates_.end(), better);
  std::sort(candidates_.begin(), middle, better);
}

size_t Sampler::truncate() {
  const size_t all = candidates_.size();
  size_t count = options_.topK > 0 ? std::min(all, size_t(options_.topK)) : all;
  if (count == all && options_.topP == 1 && options_.minP == 0)
    return all;
  const bool cut = count < all;
  if (cut)
    sortBest(count);

  const auto kept = std::span(candidates_).first(count);
  float highest = kExcluded;
  for (const Candidate &c : kept)
    highest = std::max(highest, c.logit);
  const auto weight = [&](const Candidate &c) {
    return std::exp((double(c.logit) - highest) / double(options_.temperature));
  };

  // min-p compares with the best token only, so it and top-p can be applied in either order.
  size_t minCount = count;
  if (options_.minP > 0)
    minCount = size_t(std::count_if(kept.begin(), kept.end(),
                                    [&](const Candidate &c) { return weight(c) >= double(options_.minP); }));
  if (options_.topP < 1) {
    double total = 0;
    for (const Candidate &c : kept)
      total += weight(c);
    const double wanted = total * double(options_.topP);
    // The best few tokens nearly always hold the mass: sort more only when they do not.
    size_t sorted = cut ? count : 0, taken = 0;
    double sum = 0;
    while (taken < count && sum < wanted) {
      if (taken == sorted)
        sortBest(sorted = std::min(count, std::max<size_t>(256, sorted * 8)));
      sum += weight(candidates_[taken++]);
    }
    return std::min(std::max<size_t>(taken, 1), minCount);
  }
  if (!cut && minCount < count)
    sortBest(minCount);
  return minCount;
}

int32_t Sampler::draw(size_t count) {
  const auto kept = std::span(candidates_).first(count);
  float highest = kExcluded;
  for (const Candidate &c : kept)
    highest = std::max(highest, c.logit);
  const auto weight = [&](const Candidate &c) {
    return std::exp((double(c.logit) - highest) / double(options_.temperature));
  };
  double total = 0;
  for (const Candidate &c : kept)
    total += weight(c);
  double rest = random_.next() * total;
  for (const Candidate &c : kept) {
    rest -= weight(c);
    if (rest < 0)
      return c.id;
  }
  // Rounding left a crumb: the last token that has any weight.
  for (size_t i = count; i-- > 0;)
    if (weight(kept[i]) > 0)
      return kept[i].id;
  return kept[0].id;
}

} // namespace g4::text

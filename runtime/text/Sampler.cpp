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

// Up to a 32nd of the vocabulary it pays to keep the best tokens in order while looking for them.
constexpr size_t kFew = 32;

bool isAllowed(std::span<const uint32_t> allowed, size_t id) {
  return allowed.empty() || (allowed[id / 32] >> (id % 32) & 1);
}

bool isUsable(float logit) { return logit < std::numeric_limits<float>::infinity(); } // false for a NaN

Status unusable(size_t id, float logit) {
  return internalError("the logit of token " + std::to_string(id) + " is " +
                       (std::isnan(logit) ? "NaN" : "infinite"));
}

Status noTokenLeft() {
  return invalidArgument("every token is excluded: by the mask, by logit bias or by logits of -inf");
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

Result<int32_t> Sampler::sample(const LogitRow &row, std::span<const int32_t> history,
                                std::span<const uint32_t> allowed) {
  const size_t vocabulary = row.logits.size();
  if (vocabulary == 0 || vocabulary > kMaxTokens)
    return invalidArgument("a row of logits has " + std::to_string(vocabulary) + " entries");
  if (!allowed.empty() && allowed.size() != (vocabulary + 31) / 32)
    return invalidArgument("the token mask has " + std::to_string(allowed.size()) + " words for " +
                           std::to_string(vocabulary) + " logits");
  if (!row.maxima.empty() && (row.tile == 0 || (vocabulary + row.tile - 1) / row.tile != row.maxima.size()))
    return invalidArgument(std::to_string(row.maxima.size()) + " maxima of " + std::to_string(row.tile) +
                           " logits each for " + std::to_string(vocabulary) + " logits");
  try {
    G4_RETURN_IF_ERROR(adjust(row.logits, history, allowed));
    if (options_.temperature == 0) {
      G4_RETURN_IF_ERROR(collectBest(row, allowed, 1));
      return candidates_.empty() ? Result<int32_t>(noTokenLeft()) : candidates_.front().id;
    }
    if (const size_t topK = size_t(options_.topK); topK > 0 && topK < vocabulary) {
      // One token more than it keeps tells whether it cuts any.
      G4_RETURN_IF_ERROR(collectBest(row, allowed, topK + 1));
      if (candidates_.size() > topK)
        return drawBest();
    }
    return drawOfAll(row.logits, allowed);
  } catch (const std::bad_alloc &) {
    return resourceExhausted("no memory to sample from " + std::to_string(vocabulary) + " logits");
  }
}

Status Sampler::adjust(std::span<const float> logits, std::span<const int32_t> history,
                       std::span<const uint32_t> allowed) {
  const bool penalties =
      options_.repetitionPenalty != 1 || options_.presencePenalty != 0 || options_.frequencyPenalty != 0;
  if (!penalties && options_.logitBias.empty())
    return {};
  if (changeOf_.size() != logits.size())
    changeOf_.assign(logits.size(), 0);
  else
    for (const Change &change : changes_)
      changeOf_[size_t(change.id)] = 0;
  changes_.clear();
  const auto change = [&](int32_t id) -> Change & {
    uint32_t &index = changeOf_[size_t(id)];
    if (!index) {
      changes_.push_back({isAllowed(allowed, size_t(id)) ? logits[size_t(id)] : kExcluded, id, 0});
      index = uint32_t(changes_.size());
    }
    return changes_[index - 1];
  };
  for (auto [id, bias] : options_.logitBias) {
    if (size_t(id) >= logits.size())
      return invalidArgument("logit bias for token " + std::to_string(id) + ", but the vocabulary has " +
                             std::to_string(logits.size()) + " tokens");
    change(id).logit += bias;
  }
  if (!penalties)
    return {};
  if (options_.penaltyWindow >= 0 && size_t(options_.penaltyWindow) < history.size())
    history = history.last(size_t(options_.penaltyWindow));
  for (int32_t id : history)
    if (id >= 0 && size_t(id) < logits.size())
      ++change(id).occurred;
  for (auto &[logit, id, occurred] : changes_)
    if (occurred) {
      logit = logit > 0 ? logit / options_.repetitionPenalty : logit * options_.repetitionPenalty;
      logit -= options_.presencePenalty + options_.frequencyPenalty * float(occurred);
    }
  return {};
}

Status Sampler::collectBest(const LogitRow &row, std::span<const uint32_t> allowed, size_t wanted) {
  candidates_.clear();
  const bool few = wanted <= row.logits.size() / kFew;
  // Few candidates are a heap whose first is the worst: once there are enough, a better one takes its place.
  float least = kExcluded; // nothing below it is one of the best
  const auto offer = [&](Candidate candidate) {
    if (few && candidates_.size() == wanted) {
      if (!better(candidate, candidates_.front()))
        return;
      std::pop_heap(candidates_.begin(), candidates_.end(), better);
      candidates_.pop_back();
    }
    candidates_.push_back(candidate);
    if (!few)
      return;
    std::push_heap(candidates_.begin(), candidates_.end(), better);
    if (candidates_.size() == wanted)
      least = candidates_.front().logit;
  };
  for (const Change &change : changes_)
    if (change.logit != kExcluded) {
      if (!isUsable(change.logit))
        return unusable(size_t(change.id), change.logit);
      offer({change.logit, change.id});
    }

  // So are the tiles, each as good as the best token that it can hold, but the best comes first.
  const size_t tile = row.maxima.empty() ? row.logits.size() : row.tile;
  tiles_.clear();
  if (row.maxima.empty())
    tiles_.push_back({std::numeric_limits<float>::infinity(), 0});
  for (size_t i = 0; i < row.maxima.size(); ++i)
    tiles_.push_back({row.maxima[i], int32_t(i * tile)});
  const auto worse = [](const Candidate &a, const Candidate &b) { return better(b, a); };
  std::make_heap(tiles_.begin(), tiles_.end(), worse);
  while (!tiles_.empty() &&
         (!few || candidates_.size() < wanted || better(tiles_.front(), candidates_.front()))) {
    const size_t first = size_t(tiles_.front().id);
    std::pop_heap(tiles_.begin(), tiles_.end(), worse);
    tiles_.pop_back();
    for (size_t id = first, end = std::min(first + tile, row.logits.size()); id < end; ++id) {
      const float logit = row.logits[id];
      if (logit < least || !isAllowed(allowed, id)) // a NaN goes on
        continue;
      if (!isUsable(logit))
        return unusable(id, logit);
      if (logit != kExcluded && !isChanged(id))
        offer({logit, int32_t(id)});
    }
  }
  if (candidates_.size() > wanted) {
    std::nth_element(candidates_.begin(), candidates_.begin() + ptrdiff_t(wanted), candidates_.end(), better);
    candidates_.resize(wanted);
  }
  return {};
}

int32_t Sampler::drawBest() {
  std::sort(candidates_.begin(), candidates_.end(), better);
  candidates_.pop_back();
  const double highest = candidates_.front().logit;
  double total = 0;
  for (Candidate &c : candidates_) {
    c.weight = std::exp((double(c.logit) - highest) / double(options_.temperature));
    total += c.weight;
  }
  // min-p compares with the best token only, so it and top-p can be applied in either order.
  const double wanted = options_.topP < 1 ? total * double(options_.topP) : total;
  size_t kept = 0;
  double sum = 0;
  while (kept < candidates_.size() && candidates_[kept].weight >= double(options_.minP) &&
         (options_.topP == 1 || sum < wanted))
    sum += candidates_[kept++].weight;

  double rest = random_.next() * sum;
  for (size_t i = 0; i < kept; ++i)
    if ((rest -= candidates_[i].weight) < 0)
      return candidates_[i].id;
  // Rounding left a crumb: the last token that has any weight.
  while (kept > 1 && candidates_[kept - 1].weight == 0)
    --kept;
  return candidates_[kept - 1].id;
}

Result<int32_t> Sampler::drawOfAll(std::span<const float> logits, std::span<const uint32_t> allowed) {
  if (!allowed.empty() || !changes_.empty()) {
    row_.assign(logits.begin(), logits.end());
    for (size_t id = 0; id < row_.size() && !allowed.empty(); ++id)
      if (id % 32 == 0 && allowed[id / 32] == ~0u)
        id += 31;
      else if (!isAllowed(allowed, id))
        row_[id] = kExcluded;
    for (const Change &change : changes_)
      row_[size_t(change.id)] = change.logit;
    logits = row_;
  }
  uint32_t unusables = 0, left = 0;
  for (float logit : logits) {
    unusables += !isUsable(logit);
    left += logit > kExcluded;
  }
  if (unusables) {
    const auto first = std::find_if_not(logits.begin(), logits.end(), isUsable);
    return unusable(size_t(first - logits.begin()), *first);
  }
  if (!left)
    return noTokenLeft();
  all_.weigh(logits, {options_.temperature, options_.topP, options_.minP});
  return all_.draw(random_.next());
}

} // namespace g4::text

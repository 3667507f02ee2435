// Compiled without contraction of products and sums: a weight must not depend on the machine, nor on whether
// a loop was vectorised.
#include "runtime/text/RowSampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace g4::text {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLeastExponent = -87; // e^x is a normal number from here on

/// Straight code, which compilers vectorise in the loops below.
[[gnu::always_inline]] inline float polynomialExp(float x) {
  // e^x = 2^n e^r, n = x / ln 2 rounded: adding and subtracting 1.5 * 2^23 rounds, and leaves n in the low
  // bits.
  constexpr float kRound = 0x1.8p23f;
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f; // n times the high part is exact
  const float clamped = x < kLeastExponent ? kLeastExponent : x;
  const float rounded = clamped * 0x1.715476p0f + kRound;
  const float n = rounded - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  // Taylor's series; |r| <= ln 2 / 2, so what is left out is below 2^-27.
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRound)) << 23;
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(sum) + exponent);
  return x < kLeastExponent ? 0.0f : power;
}

/// Reductions go in eight lanes, which vectors can hold, so that their order is in the code and no compiler
/// must change it.
constexpr size_t kLanes = 8;

double sumOf(std::span<const float> values) {
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t j = 0; j < kLanes; ++j)
      lanes[j] += double(values[i + j]);
  double sum = 0;
  for (double lane : lanes)
    sum += lane;
  for (; i < values.size(); ++i)
    sum += double(values[i]);
  return sum;
}

struct Extremes {
  float highest = -kInf, lowest = kInf; // the lowest that is not -inf
  void see(float logit) {
    highest = logit > highest ? logit : highest;
    const float finite = logit > -kInf ? logit : kInf;
    lowest = finite < lowest ? finite : lowest;
  }
};

Extremes extremesOf(std::span<const float> logits) {
  std::array<Extremes, kLanes> lanes;
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t j = 0; j < kLanes; ++j)
      lanes[j].see(logits[i + j]);
  Extremes all;
  for (; i < logits.size(); ++i)
    all.see(logits[i]);
  for (const Extremes &lane : lanes) {
    all.highest = std::max(all.highest, lane.highest);
    all.lowest = std::min(all.lowest, lane.lowest);
  }
  return all;
}

} // namespace

float expOf(float x) { return polynomialExp(x); }

std::span<const float> RowSampler::chunkOf(size_t chunk) const {
  return logits_.subspan(chunk * kChunk, std::min(kChunk, logits_.size() - chunk * kChunk));
}

void RowSampler::weighChunk(size_t chunk, float *weights) const {
  const std::span<const float> logits = chunkOf(chunk);
  const float highest = highest_, temperature = options_.temperature;
  for (size_t i = 0; i < logits.size(); ++i)
    weights[i] = polynomialExp((logits[i] - highest) / temperature);
}

void RowSampler::weigh(std::span<const float> logits, const Options &options) {
  logits_ = logits;
  options_ = options;
  const auto [highest, lowest] = extremesOf(logits);
  highest_ = highest;
  // What has no weight needs no bins; the least span only keeps the quotient finite.
  const float span =
      std::clamp(highest - lowest, 1e-30f, std::max(1e-30f, -kLeastExponent * options.temperature));
  binsPerLogit_ = float(kBins) / span;

  cuts_ = options.topP < 1 || polynomialExp((lowest - highest) / options.temperature) < options.minP;
  if (cuts_)
    mass_.assign(kBins, 0);
  chunks_.resize((logits.size() + kChunk - 1) / kChunk);
  total_ = 0;
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    std::array<float, kChunk> weights;
    weighChunk(chunk, weights.data());
    total_ += chunks_[chunk] = sumOf({weights.data(), chunkOf(chunk).size()});
    if (cuts_)
      spread(chunk, weights.data());
  }
}

int32_t RowSampler::draw(double at) {
  if (!cuts_)
    return drawById(at);
  const Place last = locate(options_.topP < 1 ? total_ * double(options_.topP) : double(kInf));
  const Place place = locate(at * last.through);
  return better(last.token, place.token) ? last.token.id : place.token.id; // the sums round
}

int32_t RowSampler::drawById(double at) const {
  double rest = at * total_;
  size_t chunk = 0, withWeight = 0;
  for (; chunk < chunks_.size() && rest >= chunks_[chunk]; ++chunk) {
    rest -= chunks_[chunk];
    withWeight = chunks_[chunk] > 0 ? chunk : withWeight;
  }
  if (chunk == chunks_.size()) // rounding left a crumb
    chunk = withWeight;
  std::array<float, kChunk> weights;
  weighChunk(chunk, weights.data());
  size_t last = 0;
  for (size_t i = 0; i < chunkOf(chunk).size(); ++i) {
    last = weights[i] > 0 ? i : last;
    if ((rest -= double(weights[i])) < 0)
      break;
  }
  return int32_t(chunk * kChunk + last);
}

/// Never rises with the logit, so that a bin's tokens are better than those of all further bins.
float RowSampler::binOf(float logit) const {
  const float bin = (highest_ - logit) * binsPerLogit_;
  return bin < float(kBins - 1) ? bin : float(kBins - 1);
}

void RowSampler::spread(size_t chunk, const float *weights) {
  const std::span<const float> logits = chunkOf(chunk);
  std::array<int32_t, kChunk> bins;
  for (size_t i = 0; i < logits.size(); ++i)
    bins[i] = int32_t(binOf(logits[i]));
  for (size_t i = 0; i < logits.size(); ++i)
    if (weights[i] >= options_.minP)
      mass_[size_t(bins[i])] += double(weights[i]);
}

void RowSampler::collect(size_t bin) {
  candidates_.clear();
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::span<const float> logits = chunkOf(chunk);
    std::array<int32_t, kChunk> bins;
    for (size_t i = 0; i < logits.size(); ++i)
      bins[i] = int32_t(binOf(logits[i]));
    std::array<uint16_t, kChunk> found;
    size_t count = 0;
    for (size_t i = 0; i < logits.size();
         ++i) { // no branch: whether a token is in the bin is a matter of chance
      found[count] = uint16_t(i);
      count += size_t(bins[i]) == bin;
    }
    for (size_t i : std::span(found).first(count)) {
      const float weight = polynomialExp((logits[i] - highest_) / options_.temperature);
      if (weight > 0 && weight >= options_.minP)
        candidates_.push_back({logits[i], int32_t(chunk * kChunk + i), double(weight)});
    }
  }
}

RowSampler::Place RowSampler::locate(double mass) {
  double sum = 0;
  size_t bin = 0, found = 0;
  for (double before = 0; bin < kBins && before < mass; ++bin)
    if (mass_[bin] > 0) {
      found = bin;
      sum = before;
      before += mass_[bin];
    }
  collect(found);
  // Halves, until there are few enough to sort.
  constexpr ptrdiff_t kFew = 64;
  auto first = candidates_.begin(), last = candidates_.end();
  while (last - first > kFew) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, better);
    double half = sum;
    for (auto it = first; it != middle; ++it)
      half += it->weight;
    if (half >= mass) {
      last = middle;
    } else {
      sum = half;
      first = middle;
    }
  }
  std::sort(first, last, better);
  while (true) {
    sum += first->weight;
    if (sum >= mass || first + 1 == last)
      return {*first, sum};
    ++first;
  }
}

} // namespace g4::text

/// What measures over a text share: its windows and probabilities. Not public.
#pragma once

#include "runtime/api/g4.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace g4::api {

/// A text's ids cut as llama-perplexity does: whole windows of `size` ids, the first of each replaced by BOS,
/// the ids after the first half scored.
struct Windows {
  std::span<const int32_t> ids; ///< those of the text, BOS in front
  uint32_t size;

  uint32_t count() const { return uint32_t(ids.size() / size); }
  std::vector<int32_t> window(uint32_t index) const {
    const auto part = ids.subspan(index * size_t(size), size);
    std::vector<int32_t> out(part.begin(), part.end());
    out[0] = ids[0];
    return out;
  }
  /// Ids of a window that are read without asking for results, and how many rows' results are wanted after
  /// them.
  uint32_t unscored() const { return size / 2; }
  uint32_t scored() const { return size - 1 - unscored(); }
};

/// Errors: kInvalidArgument (a window the model has no room for, or a text of less than one).
Result<Windows> cutWindows(const Model &model, std::span<const int32_t> ids, uint32_t window);

/// log(sum(exp(logits))): a logit less this is a log-probability.
inline double logSumExp(std::span<const float> logits) {
  float most = logits[0];
  for (float logit : logits)
    most = logit > most ? logit : most;
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit) - most);
  return most + std::log(sum);
}

/// Mean of a number of values, and its standard error.
struct Mean {
  uint64_t count = 0;
  double sum = 0, squares = 0;

  void add(double value) {
    ++count;
    sum += value;
    squares += value * value;
  }
  double value() const { return count ? sum / double(count) : 0; }
  double error() const {
    const double variance = count ? squares / double(count) - value() * value() : 0;
    return count > 1 && variance > 0 ? std::sqrt(variance / double(count - 1)) : 0;
  }
};

} // namespace g4::api

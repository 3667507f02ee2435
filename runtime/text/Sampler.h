/// Chooses the next token from a row of logits.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/RowSampler.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace g4::text {

/// How to choose. The steps run in the order of the fields; the defaults leave the model's distribution as it
/// is.
struct SamplingOptions {
  /// Added to the logits of single tokens. Ids must be inside the vocabulary.
  std::vector<std::pair<int32_t, float>> logitBias = {};

  /// Penalties look at the last `penaltyWindow` tokens of the history; -1: at all of it; 0: off.
  int32_t penaltyWindow = -1;
  /// Divides positive logits of tokens that occurred and multiplies negative ones; > 0, 1 is off.
  float repetitionPenalty = 1;
  /// Subtracted once from the logit of each token that occurred.
  float presencePenalty = 0;
  /// Subtracted as often as the token occurred.
  float frequencyPenalty = 0;

  /// Divides the logits; 0 is greedy: the highest logit wins and no later step matters.
  float temperature = 1;
  /// Keeps the k most probable tokens; 0 is off.
  int32_t topK = 0;
  /// Keeps the fewest most probable tokens whose probabilities (after top-k) sum to at least this; 1 is off.
  float topP = 1;
  /// Keeps tokens at least this fraction as probable as the most probable one; 0 is off.
  float minP = 0;

  /// The n-th draw of a seed is the same on every machine: see SampleRandom.
  uint64_t seed = 0;
};

/// SplitMix64 read as a counter: draw n of `seed` is mixBits(seed + (n + 1) * 0x9e3779b97f4a7c15), its top 53
/// bits divided by 2^53. Draws do not depend on one another, so a sequence can be resumed at any token.
struct SampleRandom {
  uint64_t seed = 0;
  uint64_t counter = 0;
  double next(); ///< in [0, 1)
};

/// The logits of one position.
struct LogitRow {
  std::span<const float> logits; ///< [vocabulary], after softcap; -inf excludes a token
  /// None of the first `tile` logits is above maxima[0], none of the next above maxima[1], and so on, where a
  /// NaN counts as +inf. Spares the sampler what cannot matter; empty: it looks at every logit.
  std::span<const float> maxima = {};
  size_t tile = 0;
};

/// One sequence's sampler. Not thread safe; one per sequence. Equal logits always rank by id, the lowest
/// first.
class Sampler {
public:
  /// Errors: kInvalidArgument naming the option that is out of its range.
  static Result<Sampler> create(SamplingOptions options);

  /// The next token; the same with maxima and without.
  /// `history`: the tokens so far, prompt included, for the penalties; ids out of range are ignored.
  /// `allowed`: a TokenBitmask's words, one bit per token, or empty for all; others are never chosen.
  /// Errors: kInternal (a logit of an allowed token is NaN or +inf), kInvalidArgument (no token is left, or
  /// the mask, a bias id or the maxima do not fit the vocabulary).
  Result<int32_t> sample(const LogitRow &row, std::span<const int32_t> history,
                         std::span<const uint32_t> allowed = {});

  const SamplingOptions &options() const { return options_; }
  /// Draws so far: one per call that was not greedy.
  uint64_t draws() const { return random_.counter; }

private:
  struct Change {
    float logit; ///< what the token's logit becomes
    int32_t id;
    uint32_t occurred; ///< in the history, as far as penalties look
  };
  explicit Sampler(SamplingOptions options) : options_(std::move(options)), random_{options_.seed, 0} {}

  /// Applies bias and penalties: fills `changes_`.
  Status adjust(std::span<const float> logits, std::span<const int32_t> history,
                std::span<const uint32_t> allowed);
  bool isChanged(size_t id) const { return !changes_.empty() && changeOf_[id]; }
  /// The best `wanted` tokens in any order, or all where there are fewer.
  Status collectBest(const LogitRow &row, std::span<const uint32_t> allowed, size_t wanted);
  /// From the candidates but the worst.
  int32_t drawBest();
  /// From every token that is not excluded.
  Result<int32_t> drawOfAll(std::span<const float> logits, std::span<const uint32_t> allowed);

  SamplingOptions options_;
  SampleRandom random_;
  // Kept between calls to keep their memory.
  std::vector<Candidate> candidates_, tiles_;
  std::vector<float> row_; // [vocabulary] changed logits, those of excluded tokens -inf
  RowSampler all_;
  std::vector<Change> changes_;
  std::vector<uint32_t> changeOf_; // [vocabulary] 1 + index in changes_, or 0
};

} // namespace g4::text

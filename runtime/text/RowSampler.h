/// Draws from all logits of a row at the cost of a few passes over it, whatever its distribution: nothing is
/// sorted but the few tokens that could be the one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace g4::text {

/// A token that may be chosen.
struct Candidate {
  float logit;
  int32_t id;
  double weight = 0; ///< its probability, times the same for all
};

/// The ranking of candidates: by logit, of equals the lowest id.
inline constexpr auto better = [](const Candidate &a, const Candidate &b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

/// e^x, by a polynomial: for x in [-87, 0] within 2^-23 of it, relatively; 0 below. The same on every
/// machine.
float expOf(float x);

/// Threads: one caller at a time. Steps that cut (top-p, min-p) draw from the tokens that they keep in the
/// order of their rank; where none is cut the order is that of ids.
class RowSampler {
public:
  struct Options {
    float temperature; ///< > 0
    float topP, minP;  ///< as in SamplingOptions
  };

  /// Weighs the row: a token's weight is e^x, x = (logit - the highest) / temperature, in f32. Its relative
  /// error is at most 2^-22 (1 - x). `logits`: [1 to 2^31), borrowed until the last draw; -inf excludes a
  /// token, at least one is finite, none is NaN or +inf.
  void weigh(std::span<const float> logits, const Options &options);
  /// The token at this place of the distribution, `at` in [0, 1).
  int32_t draw(double at);

private:
  static constexpr size_t kChunk = 256; // logits weighed at once
  static constexpr size_t kBins = 4096; // of equal width in logits

  struct Place {
    Candidate token;
    double through; // weight of the tokens up to this one
  };

  /// Weights of the chunk's logits.
  void weighChunk(size_t chunk, float *weights) const;
  std::span<const float> chunkOf(size_t chunk) const;
  int32_t drawById(double at) const;
  /// Adds the chunk's weights to `mass_`.
  void spread(size_t chunk, const float *weights);
  /// Fills `candidates_` with the tokens of a bin.
  void collect(size_t bin);
  /// The first token by rank with which the sum of weights is at least `mass`; the last one that has a weight
  /// if there is none.
  Place locate(double mass);
  float binOf(float logit) const;

  std::span<const float> logits_;
  Options options_{};
  float highest_ = 0, binsPerLogit_ = 0;
  double total_ = 0;  // of all weights
  bool cuts_ = false; // top-p or min-p may leave a token out
  // Kept between calls to keep their memory.
  std::vector<double> chunks_;        // [chunks] sums of weights
  std::vector<double> mass_;          // [bins] best tokens first; without those that min-p leaves out
  std::vector<Candidate> candidates_; // of one bin
};

} // namespace g4::text

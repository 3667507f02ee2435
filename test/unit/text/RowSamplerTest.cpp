// Draws from whole rows against the definition in double precision.
#include "runtime/text/RowSampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace g4::text {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(RowSamplerTest, WeightsAreWithinTheirBoundOfExp) {
  EXPECT_EQ(expOf(0), 1);
  EXPECT_EQ(expOf(-88), 0);
  EXPECT_EQ(expOf(-kInf), 0);
  size_t seen = 0;
  double worst = 0;
  for (uint32_t bits = std::bit_cast<uint32_t>(-0x1p-30f); bits <= std::bit_cast<uint32_t>(-87.f);
       bits += 101) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, std::abs(double(expOf(x)) / std::exp(double(x)) - 1));
    ++seen;
  }
  EXPECT_GT(seen, 1000000u);
  EXPECT_LT(worst, 0x1p-23);
}

/// A row's distribution in double precision: the tokens with weight in the order of the draw, and what
/// rounding may move.
class Reference {
public:
  Reference(const std::vector<float> &logits, const RowSampler::Options &options) {
    const double highest = *std::max_element(logits.begin(), logits.end());
    const auto exponent = [&](int32_t id) {
      return (double(logits[size_t(id)]) - highest) / double(options.temperature);
    };
    for (int32_t id = 0; id < int32_t(logits.size()); ++id)
      if (logits[size_t(id)] != -kInf)
        ids_.push_back(id);
    double total = 0;
    for (int32_t id : ids_) {
      total += std::exp(exponent(id));
      error_ += std::exp(exponent(id)) * (1 - exponent(id)) * 0x1p-22; // the bound in the header
    }
    const auto count = [&](double least) {
      return size_t(std::count_if(ids_.begin(), ids_.end(),
                                  [&](int32_t id) { return std::exp(exponent(id)) >= least; }));
    };
    const double slack = 0x1p-17; // of a weight near min-p, which is at least e^-10 in these tests
    size_t fewest = count(double(options.minP) * (1 + slack)),
           most = count(double(options.minP) * (1 - slack));
    if (options.topP < 1 || fewest < ids_.size())
      std::stable_sort(ids_.begin(), ids_.end(),
                       [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
    through_.push_back(0);
    for (int32_t id : ids_)
      through_.push_back(through_.back() + std::exp(exponent(id)));
    if (options.topP < 1) {
      const auto reaches = [&](double mass) {
        return size_t(std::lower_bound(through_.begin(), through_.end() - 1, mass) - through_.begin());
      };
      fewest = std::min(fewest, std::max<size_t>(reaches(total * double(options.topP) - error_), 1));
      most = std::min(most, std::max<size_t>(reaches(total * double(options.topP) + error_), 1));
    }
    least_ = through_[fewest];
    greatest_ = through_[most];
    kept_ = most;
  }

  /// Whether this token is the one at this place, as far as rounding allows to tell.
  bool accepts(int32_t id, double at) const {
    const auto rank = size_t(std::find(ids_.begin(), ids_.end(), id) - ids_.begin());
    return rank < kept_ && at * least_ - 2 * error_ <= through_[rank + 1] &&
           at * greatest_ + 2 * error_ >= through_[rank];
  }
  size_t kept() const { return kept_; }

private:
  std::vector<int32_t> ids_;    // in the order of the draw
  std::vector<double> through_; // [1 + ids] sums of weights before each
  double error_ = 0;            // of any sum of weights
  double least_, greatest_;     // mass of those kept
  size_t kept_;
};

struct Row {
  const char *name;
  std::vector<float> logits;
};

std::vector<Row> rows() {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  const auto row = [](const char *name, size_t size, const std::function<float(size_t)> &logit) {
    Row r{name, std::vector<float>(size)};
    for (size_t i = 0; i < size; ++i)
      r.logits[i] = logit(i);
    return r;
  };
  return {row("one token", 1, [](size_t) { return -3.f; }),
          row("a chunk but one", 255, [&](size_t) { return normal(rng); }),
          row("a chunk and one", 257, [&](size_t) { return normal(rng); }),
          row("peaked", 5000, [&](size_t) { return 8 * normal(rng); }),
          row("nearly equal", 5000, [&](size_t) { return 20 + 0.001f * normal(rng); }),
          row("equal", 5000, [](size_t) { return 2.5f; }),
          row("two values", 5000, [](size_t i) { return i % 3 ? 1.f : 2.f; }),
          row("one far above", 5000, [](size_t i) { return i == 4321 ? 500.f : float(i % 7); }),
          row("one far below", 5000, [](size_t i) { return i == 4321 ? -1e30f : float(i % 7); }),
          row("mostly excluded", 5000, [&](size_t i) { return i % 50 == 13 ? normal(rng) : -kInf; }),
          row("a real vocabulary", 262144, [&](size_t) { return normal(rng); })};
}

TEST(RowSamplerTest, DrawsAreThoseOfTheDefinition) {
  std::vector<double> places{0, 0x1p-53, 0.5, 1 - 0x1p-53};
  std::mt19937_64 rng(11);
  for (int i = 0; i < 60; ++i)
    places.push_back(double(rng() >> 11) * 0x1p-53);
  size_t accepted = 0, refused = 0;
  for (const Row &row : rows())
    for (RowSampler::Options options : std::vector<RowSampler::Options>{{1, 1, 0},
                                                                        {0.01f, 1, 0},
                                                                        {50, 1, 0},
                                                                        {1, 0.95f, 0},
                                                                        {1, 0.5f, 0},
                                                                        {3, 1e-6f, 0},
                                                                        {0.7f, 0.9999f, 0},
                                                                        {1, 1, 0.1f},
                                                                        {1, 1, 1},
                                                                        {2, 0.9f, 0.05f},
                                                                        {2, 0.3f, 0.01f}}) {
      const Reference reference(row.logits, options);
      RowSampler sampler;
      sampler.weigh(row.logits, options);
      for (double at : places) {
        const int32_t id = sampler.draw(at);
        ASSERT_TRUE(reference.accepts(id, at))
            << row.name << ", temperature " << options.temperature << ", top-p " << options.topP << ", min-p "
            << options.minP << ", at " << at;
        ++accepted;
        // Where more than a few tokens share the mass, another place has another token.
        if (reference.kept() > 100)
          refused += !reference.accepts(id, at < 0.5 ? at + 0.4 : at - 0.4);
      }
    }
  EXPECT_GT(accepted, 5000u);
  EXPECT_GT(refused, 1000u);
}

TEST(RowSamplerTest, AnyTemperatureAndAnyLogitsAreWeighed) {
  const std::vector<float> logits{-3e38f, 3e38f, -kInf, 3e38f, 0};
  for (float temperature : {1e-40f, 1e-6f, 1.f, 1e30f, 3e38f})
    for (float topP : {0.5f, 0.9f, 1.f})
      for (double at : {0.0, 0.3, 0.7, 1 - 0x1p-53}) {
        RowSampler sampler;
        sampler.weigh(logits, {temperature, topP, 0});
        const int32_t id = sampler.draw(at);
        ASSERT_TRUE(id >= 0 && id < 5 && id != 2) << id;
        if (temperature < 1e30f) {
          ASSERT_EQ(id, at < 0.5 || topP == 0.5f ? 1 : 3);
        }
      }
}

} // namespace
} // namespace g4::text

#include "runtime/text/Sampler.h"

#include "runtime/text/TokenSets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace g4::text {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Sampler make(SamplingOptions options) {
  auto sampler = Sampler::create(std::move(options));
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return *std::move(sampler);
}

int32_t pick(Sampler &sampler, const std::vector<float> &logits, const std::vector<int32_t> &history = {},
             std::span<const uint32_t> allowed = {}) {
  auto id = sampler.sample({logits}, history, allowed);
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? *id : -1;
}

std::map<int32_t, double> frequencies(SamplingOptions options, const std::vector<float> &logits,
                                      int draws = 20000) {
  Sampler sampler = make(std::move(options));
  std::map<int32_t, double> out;
  for (int i = 0; i < draws; ++i)
    out[pick(sampler, logits)] += 1.0 / draws;
  return out;
}

TEST(SamplerTest, GreedyTakesTheHighestLogitAndTheLowestIdOfEquals) {
  Sampler sampler = make({.temperature = 0});
  EXPECT_EQ(pick(sampler, {1, 3, 2}), 1);
  EXPECT_EQ(pick(sampler, {1, 3, 3, 3}), 1);
  EXPECT_EQ(pick(sampler, {-kInf, -5, -kInf}), 1);
  EXPECT_EQ(sampler.draws(), 0u);
}

TEST(SamplerTest, DrawsFollowTheSoftmax) {
  // 20,000 draws: three standard deviations of a frequency are at most 3 * sqrt(0.25 / 20000) = 0.011.
  const auto f = frequencies({}, {std::log(0.5f), std::log(0.3f), std::log(0.2f)});
  EXPECT_NEAR(f.at(0), 0.5, 0.011);
  EXPECT_NEAR(f.at(1), 0.3, 0.011);
  EXPECT_NEAR(f.at(2), 0.2, 0.011);
}

TEST(SamplerTest, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits{std::log(0.8f), std::log(0.2f)};
  EXPECT_NEAR(frequencies({.temperature = 0.5f}, logits).at(0), 16.0 / 17, 0.011);
  EXPECT_NEAR(frequencies({.temperature = 2}, logits).at(0), 2.0 / 3, 0.011);
}

TEST(SamplerTest, TopKKeepsTheBestAndBreaksTiesByTheLowestId) {
  const auto f = frequencies({.topK = 2}, {1, 2, 1, 1});
  EXPECT_EQ(f.size(), 2u);
  EXPECT_TRUE(f.count(1));
  EXPECT_TRUE(f.count(0)); // not 2 or 3, whose logits are equal
  EXPECT_EQ(frequencies({.topK = 1}, {2, 2, 2}).begin()->first, 0);
}

TEST(SamplerTest, TopPKeepsTheFewestTokensThatReachTheMass) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  auto f = frequencies({.topP = 0.8f}, logits);
  EXPECT_EQ(f.size(), 2u);
  EXPECT_NEAR(f.at(1), 2.0 / 3, 0.011);
  EXPECT_EQ(frequencies({.topP = 0.5f}, logits).size(), 1u);
  EXPECT_EQ(frequencies({.topP = 1e-6f}, logits).size(), 1u); // never none
  // Top-p looks at what top-k left: 0.6 of 0.9 is less than 0.7.
  EXPECT_EQ(frequencies({.topK = 2, .topP = 0.7f}, logits).size(), 2u);
  EXPECT_EQ(frequencies({.topK = 2, .topP = 0.66f}, logits).size(), 1u);
}

TEST(SamplerTest, TopPOverManyTokensKeepsExactlyTheWantedCount) {
  // 4000 equal tokens after one of half the mass: 0.75 needs half of them.
  std::vector<float> logits(4001, std::log(0.5f / 4000));
  logits[4000] = std::log(0.5f);
  const auto f = frequencies({.topP = 0.7499f}, logits, 1000);
  EXPECT_TRUE(f.count(4000));
  for (const auto &[id, share] : f)
    EXPECT_TRUE(id == 4000 || id < 2000) << id; // of equals, the lowest ids
}

TEST(SamplerTest, MinPIsRelativeToTheBest) {
  const std::vector<float> logits{std::log(0.6f), std::log(0.25f), std::log(0.15f)};
  EXPECT_EQ(frequencies({.minP = 0.3f}, logits).size(), 2u);
  EXPECT_EQ(frequencies({.minP = 0.5f}, logits).size(), 1u);
  EXPECT_EQ(frequencies({.minP = 0.1f}, logits).size(), 3u);
}

TEST(SamplerTest, PenaltiesChangeTokensThatOccurred) {
  // repetition: 4 / 2 = 2 < 3; negative logits get more negative.
  Sampler repetition = make({.repetitionPenalty = 2, .temperature = 0});
  EXPECT_EQ(pick(repetition, {4, 3, 0}), 0);
  EXPECT_EQ(pick(repetition, {4, 3, 0}, {0}), 1);
  EXPECT_EQ(pick(repetition, {-1, -1.5f}, {0}), 1);
  Sampler presence = make({.presencePenalty = 1.5f, .temperature = 0});
  EXPECT_EQ(pick(presence, {4, 3, 0}, {0, 0, 0}), 1);
  Sampler frequency = make({.frequencyPenalty = 0.5f, .temperature = 0});
  EXPECT_EQ(pick(frequency, {4, 3, 0}, {0}), 0);
  EXPECT_EQ(pick(frequency, {4, 3, 0}, {0, 0, 0}), 1);
}

TEST(SamplerTest, PenaltyWindowLimitsTheHistory) {
  Sampler window = make({.penaltyWindow = 2, .presencePenalty = 5, .temperature = 0});
  EXPECT_EQ(pick(window, {4, 3, 0}, {0, 2, 2}), 0);
  EXPECT_EQ(pick(window, {4, 3, 0}, {2, 0, 2}), 1);
  Sampler off = make({.penaltyWindow = 0, .presencePenalty = 5, .temperature = 0});
  EXPECT_EQ(pick(off, {4, 3, 0}, {0, 0, 0}), 0);
  Sampler all = make({.presencePenalty = 5, .temperature = 0});
  EXPECT_EQ(pick(all, {4, 3, 0}, {0, 7, -1}), 1); // ids out of range are ignored
}

TEST(SamplerTest, LogitBiasMovesAndExcludesTokens) {
  Sampler sampler = make({.logitBias = {{0, 2.f}, {2, -kInf}}, .temperature = 0});
  EXPECT_EQ(pick(sampler, {1, 2, 9}), 0);
  EXPECT_FALSE(sampler.sample({std::vector<float>{1, 2}}, {}).ok()); // id 2 does not exist
}

TEST(SamplerTest, MaskedTokensAreNeverChosen) {
  TokenBitmask mask(40, true);
  mask.set(33, false);
  std::vector<float> logits(40, 0);
  logits[33] = 20;
  logits[7] = 10;
  Sampler greedy = make({.temperature = 0});
  EXPECT_EQ(pick(greedy, logits, {}, mask.words()), 7);
  Sampler random = make({});
  for (int i = 0; i < 1000; ++i)
    EXPECT_NE(pick(random, logits, {}, mask.words()), 33);
  EXPECT_FALSE(greedy.sample({std::vector<float>(80, 0.f)}, {}, mask.words()).ok()); // a mask of another size
}

TEST(SamplerTest, NanAndInfiniteLogitsAreErrors) {
  for (float temperature : {0.f, 1.f}) {
    Sampler sampler = make({.temperature = temperature});
    auto id = sampler.sample({std::vector<float>{0, NAN, 1}}, {});
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), Code::kInternal);
    EXPECT_EQ(id.status().message(), "the logit of token 1 is NaN");
    EXPECT_FALSE(sampler.sample({std::vector<float>{0, kInf}}, {}).ok());
    EXPECT_FALSE(sampler.sample({std::vector<float>{-kInf, -kInf}}, {}).ok());
    EXPECT_FALSE(sampler.sample({std::vector<float>{}}, {}).ok());
    TokenBitmask mask(2, true);
    mask.set(1, false);
    auto masked = sampler.sample({std::vector<float>{0, NAN}}, {}, mask.words()); // not looked at
    EXPECT_TRUE(masked.ok());
  }
}

TEST(SamplerTest, SameSeedGivesTheSameTokensAndTheDocumentedNumbers) {
  // SplitMix64's published sequence for seed 0.
  SampleRandom random{0, 0};
  EXPECT_EQ(random.next(), double(0xe220a8397b1dcdafull >> 11) * 0x1p-53);
  EXPECT_EQ(random.next(), double(0x6e789e6aa1b965f4ull >> 11) * 0x1p-53);
  EXPECT_EQ(random.next(), double(0x06c45d188009454full >> 11) * 0x1p-53);

  std::vector<float> logits(100);
  for (int i = 0; i < 100; ++i)
    logits[size_t(i)] = float(i * 37 % 100) * 0.03f;
  const auto run = [&](uint64_t seed) {
    Sampler sampler = make({.seed = seed});
    std::vector<int32_t> out;
    for (int i = 0; i < 50; ++i)
      out.push_back(pick(sampler, logits));
    return out;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(SamplerTest, OptionsOutOfRangeAreNamed) {
  const auto error = [](SamplingOptions options) {
    auto sampler = Sampler::create(std::move(options));
    return sampler.ok() ? std::string() : sampler.status().message();
  };
  EXPECT_NE(error({.temperature = -1}).find("temperature"), std::string::npos);
  EXPECT_NE(error({.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(error({.topK = -1}).find("top-k"), std::string::npos);
  EXPECT_NE(error({.topP = 0}).find("top-p"), std::string::npos);
  EXPECT_NE(error({.topP = NAN}).find("top-p"), std::string::npos);
  EXPECT_NE(error({.minP = 2}).find("min-p"), std::string::npos);
  EXPECT_NE(error({.repetitionPenalty = 0}).find("repetition"), std::string::npos);
  EXPECT_NE(error({.presencePenalty = kInf}).find("presence"), std::string::npos);
  EXPECT_NE(error({.penaltyWindow = -2}).find("window"), std::string::npos);
  EXPECT_NE(error({.logitBias = {{-1, 0.f}}}).find("bias"), std::string::npos);
}

TEST(SamplerTest, ALargeVocabularyAndAllStepsStayFast) {
  std::vector<float> logits(262144);
  uint64_t state = 0;
  for (float &logit : logits)
    logit = float((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 40) * 1e-6f;
  Sampler sampler = make({.topK = 64, .topP = 0.95f, .minP = 0.01f});
  for (int i = 0; i < 20; ++i)
    EXPECT_GE(pick(sampler, logits, {1, 2, 3}), 0);
}

} // namespace
} // namespace g4::text

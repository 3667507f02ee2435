// Sampling with the maxima of tiles and without, against an obvious sampler that sorts everything.
#include "runtime/text/Sampler.h"
#include "runtime/text/TokenSets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace g4::text {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// What the head's kernel gives.
std::vector<float> maximaOf(const std::vector<float> &logits, size_t tile) {
  std::vector<float> maxima;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % tile == 0)
      maxima.push_back(-kInf);
    maxima.back() = std::max(maxima.back(), std::isnan(logits[i]) ? kInf : logits[i]);
  }
  return maxima;
}

struct Token {
  float logit;
  int32_t id;
};

/// The documented steps on a whole row.
int32_t reference(const SamplingOptions &o, std::vector<float> row, std::span<const int32_t> history,
                  std::span<const uint32_t> allowed, SampleRandom &random) {
  for (auto [id, bias] : o.logitBias)
    row[size_t(id)] += bias;
  if (o.penaltyWindow >= 0)
    history = history.last(std::min(history.size(), size_t(o.penaltyWindow)));
  for (size_t id = 0; id < row.size(); ++id)
    if (const auto count = std::count(history.begin(), history.end(), int32_t(id))) {
      row[id] = row[id] > 0 ? row[id] / o.repetitionPenalty : row[id] * o.repetitionPenalty;
      row[id] -= o.presencePenalty + o.frequencyPenalty * float(count);
    }
  std::vector<Token> byId;
  for (size_t id = 0; id < row.size(); ++id)
    if (row[id] != -kInf && (allowed.empty() || (allowed[id / 32] >> (id % 32) & 1)))
      byId.push_back({row[id], int32_t(id)});
  std::vector<Token> best = byId;
  std::sort(best.begin(), best.end(),
            [](Token a, Token b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  if (o.temperature == 0)
    return best.front().id;

  const auto weight = [&](Token t) {
    return std::exp((double(t.logit) - best.front().logit) / double(o.temperature));
  };
  const size_t most = o.topK > 0 ? std::min(best.size(), size_t(o.topK)) : best.size();
  // Sums run in the order of ids where nothing was cut before, else from the best down.
  std::vector<Token> kept(best.begin(), best.begin() + ptrdiff_t(most));
  double total = 0;
  for (Token t : most < best.size() ? kept : byId)
    total += weight(t);
  size_t count =
      size_t(std::count_if(kept.begin(), kept.end(), [&](Token t) { return weight(t) >= double(o.minP); }));
  if (o.topP < 1) {
    size_t taken = 0;
    for (double sum = 0; taken < most && sum < total * double(o.topP);)
      sum += weight(kept[taken++]);
    count = std::min(count, std::max<size_t>(taken, 1));
  }
  kept.resize(count);
  if (count == best.size() && o.topP == 1)
    kept = byId;
  total = 0;
  for (Token t : kept)
    total += weight(t);
  double rest = random.next() * total;
  for (Token t : kept)
    if ((rest -= weight(t)) < 0)
      return t.id;
  return kept.back().id;
}

struct Row {
  const char *name;
  std::vector<float> logits;
};

/// Rows of 3000 logits: no tile of a power of two divides them.
std::vector<Row> rows() {
  constexpr size_t kVocabulary = 3000;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 3);
  const auto row = [&](const char *name, const std::function<float(size_t)> &logit) {
    Row r{name, {}};
    for (size_t i = 0; i < kVocabulary; ++i)
      r.logits.push_back(logit(i));
    return r;
  };
  return {row("random", [&](size_t) { return normal(rng); }),
          row("few values", [&](size_t) { return float(rng() % 4); }), // ties within tiles and across them
          row("equal", [](size_t) { return -1.5f; }),
          row("zeros of both signs", [](size_t i) { return i % 3 ? 0.f : -0.f; }),
          row("rising", [](size_t i) { return float(i) * 0.01f; }),
          row("falling", [](size_t i) { return float(i) * -0.01f; }),
          row("one each tile", [](size_t i) { return i % 64 == 63 ? 5.f : -5.f; }),
          row("all in one tile", [](size_t i) { return i / 64 == 7 ? 5.f + float(i % 5) : float(i % 3); }),
          row("mostly excluded", [&](size_t) { return rng() % 8 ? -kInf : normal(rng); }),
          row("three left", [](size_t i) { return i % 1200 == 13 ? 1.f : -kInf; })};
}

/// Steps that change some tokens, or leave some out.
struct Setting {
  const char *name;
  SamplingOptions options;
  std::vector<int32_t> history = {};
  std::function<bool(int32_t)> allows = nullptr;
};

std::vector<Setting> settings() {
  return {
      {"plain", {}},
      {"bias", {.logitBias = {{3, 4.f}, {70, -kInf}, {71, -2.f}, {3, 1.f}, {2999, 20.f}}}},
      {"penalties",
       {.penaltyWindow = 6, .repetitionPenalty = 1.7f, .presencePenalty = 0.5f, .frequencyPenalty = 0.25f},
       {500, 2998, 2999, 449, 450, 450, 63, -1, 4000}},
      {"rewards", {.repetitionPenalty = 0.5f, .presencePenalty = -2}, {64, 65, 448, 13}},
      {"mask", {}, {}, [](int32_t id) { return id % 7 != 3 && (id < 100 || id > 300); }},
      {"small mask", {}, {}, [](int32_t id) { return id % 100 == 13; }}, // thirty tokens
      {"all at once",
       {.logitBias = {{13, 3.f}, {14, 3.f}}, .repetitionPenalty = 1.2f, .frequencyPenalty = 0.1f},
       {13, 13, 1213, 20},
       [](int32_t id) { return id % 2 == 1; }}};
}

TEST(SamplerMaximaTest, TokensAreThoseOfASamplerThatSortsEverything) {
  size_t compared = 0;
  for (const Row &row : rows())
    for (const Setting &setting : settings()) {
      TokenBitmask mask(int32_t(row.logits.size()), true);
      size_t left = 0;
      for (int32_t id = 0; id < int32_t(row.logits.size()); ++id) {
        const bool allowed = !setting.allows || setting.allows(id);
        mask.set(id, allowed);
        left += allowed && row.logits[size_t(id)] != -kInf;
      }
      if (left == 0)
        continue;
      std::span<const uint32_t> allowed;
      if (setting.allows)
        allowed = mask.words();
      for (auto [temperature, topK, topP, minP] :
           std::vector<std::tuple<float, int32_t, float, float>>{{0, 0, 1, 0}, // greedy
                                                                 {1, 64, 0.95f, 0},
                                                                 {1, 1, 1, 0},
                                                                 {0.7f, 3, 1, 0},
                                                                 {2, 10, 1, 0},
                                                                 {1, 15, 0.5f, 0},
                                                                 {1, 29, 1, 0},
                                                                 {1, 30, 1, 0},
                                                                 {1, 63, 1, 0.02f},
                                                                 {1, 92, 0.9f, 0.01f},
                                                                 {1, 93, 1, 0},
                                                                 {1, 2998, 1, 0},
                                                                 {1, 3000, 0.99f, 0},
                                                                 {1, 5000, 1, 0},
                                                                 {1, 0, 0.8f, 0},
                                                                 {1, 0, 1, 0.1f},
                                                                 {1.5f, 0, 1, 0}}) {
        SamplingOptions options = setting.options;
        options.temperature = temperature;
        options.topK = topK;
        options.topP = topP;
        options.minP = minP;
        options.seed = compared;
        SampleRandom random{options.seed, 0};
        std::vector<int32_t> wanted;
        for (int draw = 0; draw < 3; ++draw)
          wanted.push_back(reference(options, row.logits, setting.history, allowed, random));
        // No tiles; tiles of one logit, fewer and more than top-k asks for, and one tile for all.
        for (size_t tile : {0, 1, 16, 64, 256, 3000}) {
          const std::vector<float> maxima = tile ? maximaOf(row.logits, tile) : std::vector<float>();
          auto sampler = Sampler::create(options);
          ASSERT_TRUE(sampler.ok()) << sampler.status().message();
          for (int32_t want : wanted) {
            auto id = sampler->sample({row.logits, maxima, tile}, setting.history, allowed);
            ASSERT_TRUE(id.ok()) << id.status().message();
            ASSERT_EQ(*id, want) << row.name << ", " << setting.name << ", top-k " << topK << ", tile "
                                 << tile;
            ++compared;
          }
          ASSERT_EQ(sampler->draws(), random.counter);
        }
      }
    }
  EXPECT_GT(compared, 10000u);
}

TEST(SamplerMaximaTest, MaximaMayBeLargerThanTheirTiles) {
  std::mt19937 rng(5);
  std::vector<float> logits(4096), maxima(64, 1000);
  for (float &logit : logits)
    logit = float(rng() % 1000) * 0.01f;
  auto with = Sampler::create({.topK = 20}), without = Sampler::create({.topK = 20});
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(*with->sample({logits, maxima, 64}, {}), *without->sample({logits}, {}));
}

/// The maxima are what is looked at first: a tile that promises nothing is left alone.
TEST(SamplerMaximaTest, TilesThatCannotMatterAreNotRead) {
  std::vector<float> logits(4096, 1), maxima(64, 1);
  maxima[9] = 3;
  logits[9 * 64 + 5] = 3;
  logits[20 * 64] = 7; // a lie of its tile's maximum
  for (SamplingOptions options : {SamplingOptions{.temperature = 0}, SamplingOptions{.topK = 1}})
    EXPECT_EQ(*Sampler::create(options)->sample({logits, maxima, 64}, {}), 9 * 64 + 5);
}

TEST(SamplerMaximaTest, NanAndInfiniteLogitsAreErrorsWhereverTheyAre) {
  for (float bad : {float(NAN), kInf})
    for (size_t at : {0, 77, 4095})
      for (float temperature : {0.f, 1.f}) {
        std::vector<float> logits(4096, 1);
        logits[at] = bad;
        const std::vector<float> maxima = maximaOf(logits, 64);
        const SamplingOptions options{.logitBias = {{77, -kInf}}, .temperature = temperature, .topK = 2};
        auto id = Sampler::create(options)->sample({logits, maxima, 64}, {});
        ASSERT_FALSE(id.ok());
        EXPECT_EQ(id.status().code(), Code::kInternal);
        EXPECT_NE(id.status().message().find("token " + std::to_string(at)), std::string::npos);
        TokenBitmask mask(4096, true);
        mask.set(int32_t(at), false);
        EXPECT_TRUE(Sampler::create(options)->sample({logits, maxima, 64}, {}, mask.words()).ok());
      }
}

TEST(SamplerMaximaTest, MaximaThatDoNotFitAreRefused) {
  const std::vector<float> logits(100, 1), maxima(7, 1);
  Sampler sampler = *Sampler::create({.topK = 2});
  EXPECT_TRUE(sampler.sample({logits, maxima, 16}, {}).ok());
  for (size_t tile : {0, 8, 17, 100})
    EXPECT_EQ(sampler.sample({logits, maxima, tile}, {}).status().code(), Code::kInvalidArgument) << tile;
}

} // namespace
} // namespace g4::text

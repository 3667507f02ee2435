#include "test/unit/engine/EngineTestBase.h"

namespace g4::engine {
namespace {

using PrefillTest = ToyEngineTest;

TEST_F(PrefillTest, EveryChunkSizeGivesTheSameLogitsOfEveryToken) {
  const auto ids = tokens(3 * kToyWindow + 17);
  for (unsigned threads : {1u, 2u}) {
    auto engine = make({.threads = threads, .poisonFreePages = true});
    std::vector<float> reference;
    for (uint32_t chunk : {0u, 1u, 7u, 16u, 64u, 1000u}) {
      const kv::SeqId seq = engine->openSequence();
      std::vector<float> logits;
      const Status status = prefill(*engine, seq, ids, {.chunk = chunk, .want = Want::kAll},
                                    [&](uint32_t first, uint32_t rows, const StepOutput &output) -> Status {
                                      EXPECT_EQ(logits.size(), size_t(first) * kToyVocabulary);
                                      EXPECT_EQ(output.logits.size(), size_t(rows) * kToyVocabulary);
                                      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
                                      return {};
                                    });
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(logits.size(), ids.size() * kToyVocabulary);
      if (reference.empty())
        reference = logits;
      EXPECT_EQ(logits, reference) << "chunk " << chunk;
      const ToyHidden last = toyHidden(ids, ids.size() - 1);
      EXPECT_EQ(logits[(ids.size() - 1) * kToyVocabulary], last.window + 10 * last.all);
      ASSERT_TRUE(engine->closeSequence(seq).ok());
    }
  }
}

TEST_F(PrefillTest, OnlyTheLastTokenPassesThroughTheTail) {
  auto engine = make();
  const auto ids = tokens(250);
  size_t outputs = 0;
  ASSERT_TRUE(prefill(*engine, engine->openSequence(), ids, {.chunk = 64, .want = Want::kLast},
                      [&](uint32_t, uint32_t, const StepOutput &output) -> Status {
                        outputs += output.logits.size() / kToyVocabulary;
                        return {};
                      })
                  .ok());
  EXPECT_EQ(outputs, 1u);
  EXPECT_EQ(engine->counters().rows, 250u);
  EXPECT_EQ(engine->counters().tailRows, 1u);
  EXPECT_EQ(engine->counters().logitRows, 1u);
}

TEST_F(PrefillTest, WantingNothingComputesNoTailRow) {
  auto engine = make();
  ASSERT_TRUE(prefill(*engine, engine->openSequence(), tokens(100), {.want = Want::kNothing}).ok());
  EXPECT_EQ(engine->counters().tailRows, 0u);
}

TEST_F(PrefillTest, SlidingBytesStayConstantFromTwoWindowsToManyMore) {
  auto engine = make();
  const kv::SeqId seq = engine->openSequence();
  const auto ids = tokens(kToyContext);
  uint64_t atTwo = 0;
  for (uint32_t windows = 2; windows <= 40; windows += 2) {
    const uint32_t start = *engine->length(seq);
    ASSERT_TRUE(prefill(*engine, seq, std::span(ids).subspan(start, windows * kToyWindow - start),
                        {.chunk = 50, .want = Want::kNothing})
                    .ok());
    const uint64_t bytes = engine->cache().usedBytes(kv::PageClass::kSliding);
    atTwo = windows == 2 ? bytes : atTwo;
    EXPECT_LE(bytes, atTwo + engine->cache().pageBytes(kv::PageClass::kSliding))
        << windows; // 100 is no multiple of 64
  }
}

TEST_F(PrefillTest, ForcedExpertsAreCutWithTheChunks) {
  auto engine = make();
  const auto ids = tokens(20);
  std::vector<int32_t> forced(2 * 20 * 2);
  for (size_t i = 0; i < forced.size(); ++i)
    forced[i] = int32_t(i % 8);
  std::vector<int32_t> seen;
  ASSERT_TRUE(prefill(*engine, engine->openSequence(), ids,
                      {.chunk = 7, .want = Want::kNothing, .forcedExperts = forced}, nullptr,
                      [&](const TapView &tap) -> Status {
                        if (tap.name == "router_idx1")
                          for (uint32_t r = 0; r < tap.rows; ++r)
                            seen.push_back(*reinterpret_cast<const int32_t *>(tap.data + r * tap.rowBytes));
                        return {};
                      })
                  .ok());
  ASSERT_EQ(seen.size(), 20u);
  for (size_t r = 0; r < 20; ++r)
    EXPECT_EQ(seen[r], forced[40 + 2 * r]);
}

} // namespace
} // namespace g4::engine

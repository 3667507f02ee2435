#include "runtime/kv/PrefixTree.h"
#include "runtime/kv/SavedSequence.h"
#include "test/unit/engine/EngineTestBase.h"

#include <cmath>
#include <numeric>

namespace g4::engine {
namespace {

class EngineTest : public ToyEngineTest {
protected:
  /// Owns what a Step borrows.
  struct Rows {
    std::vector<int32_t> tokens;
    std::vector<kv::SeqId> sequences;
    std::vector<uint32_t> positions, tail, logits;
    void add(int32_t token, kv::SeqId seq, uint32_t position, bool wanted = true) {
      if (wanted) {
        tail.push_back(uint32_t(tokens.size()));
        logits.push_back(uint32_t(tokens.size()));
      }
      tokens.push_back(token);
      sequences.push_back(seq);
      positions.push_back(position);
    }
    Step step() const { return {tokens, sequences, positions, tail, logits, {}}; }
  };

  /// Bytes of `pages` K/V pages of each class.
  uint64_t kvBytesOf(uint64_t pages) {
    const auto engine = make();
    return pages * (engine->cache().pageBytes(kv::PageClass::kSliding) +
                    engine->cache().pageBytes(kv::PageClass::kGlobal));
  }
  static void expectHidden(const StepOutput &output, size_t index, const std::vector<int32_t> &tokens,
                           size_t position) {
    const ToyHidden want = toyHidden(tokens, position);
    EXPECT_EQ(output.hidden[index * kToyHidden], want.window) << "position " << position;
    EXPECT_EQ(output.hidden[index * kToyHidden + 1], want.all) << "position " << position;
  }
};

TEST_F(EngineTest, DecodeOneByOnePastThreeWindowsIsRight) {
  auto engine = make();
  const auto ids = tokens(4 * kToyWindow);
  const kv::SeqId seq = engine->openSequence();
  for (uint32_t p = 0; p < ids.size(); ++p) {
    Rows rows;
    rows.add(ids[p], seq, p);
    auto output = engine->run(rows.step());
    ASSERT_TRUE(output.ok()) << output.status().message();
    expectHidden(*output, 0, ids, p);
    const ToyHidden want = toyHidden(ids, p);
    EXPECT_EQ(output->logits[5], want.window + 10 * want.all + 1.25f);
  }
}

TEST_F(EngineTest, SeveralSequencesInOneStepGiveWhatEachGivesAlone) {
  auto engine = make({.threads = 3, .maxSequences = 3, .poisonFreePages = true});
  const std::vector<std::vector<int32_t>> ids = {tokens(300, 5), tokens(300, 6), tokens(300, 7)};
  const kv::SeqId seqs[] = {engine->openSequence(), engine->openSequence(), engine->openSequence()};
  // Ragged: 1, 7 and 20 rows a step, interleaved, until the longest ends.
  const uint32_t take[] = {1, 7, 20};
  uint32_t done[] = {0, 0, 0};
  while (done[2] < 300) {
    Rows rows;
    std::vector<std::pair<int, uint32_t>> order;
    for (uint32_t i = 0; i < 20; ++i)
      for (int s = 0; s < 3; ++s)
        if (i < take[s]) {
          rows.add(ids[s][done[s] + i], seqs[s], done[s] + i);
          order.push_back({s, done[s] + i});
        }
    auto output = engine->run(rows.step());
    ASSERT_TRUE(output.ok()) << output.status().message();
    for (size_t i = 0; i < order.size(); ++i)
      expectHidden(*output, i, ids[order[i].first], order[i].second);
    for (int s = 0; s < 3; ++s)
      done[s] += take[s];
  }
}

TEST_F(EngineTest, AsFewTailAndLogitRowsAreComputedAsAreWanted) {
  auto engine = make();
  const auto ids = tokens(40);
  const kv::SeqId seq = engine->openSequence();
  Rows rows;
  for (uint32_t p = 0; p < 40; ++p)
    rows.add(ids[p], seq, p, false);
  rows.tail = {3, 17, 18, 39};
  rows.logits = {17, 39};
  auto output = engine->run(rows.step());
  ASSERT_TRUE(output.ok());
  ASSERT_EQ(output->hidden.size(), 4 * kToyHidden);
  ASSERT_EQ(output->logits.size(), 2 * kToyVocabulary);
  for (size_t i = 0; i < 4; ++i)
    expectHidden(*output, i, ids, rows.tail[i]);
  EXPECT_EQ(output->logits[0], toyHidden(ids, 17).window + 10 * toyHidden(ids, 17).all);
  EXPECT_EQ(output->logits[kToyVocabulary], toyHidden(ids, 39).window + 10 * toyHidden(ids, 39).all);
  ASSERT_EQ(output->tile, 8u);
  ASSERT_EQ(output->maxima.size(), output->logits.size() / 8);
  for (size_t i = 0; i < output->maxima.size(); ++i) // the toy's logits rise with the id
    EXPECT_EQ(output->maxima[i], output->logits[8 * i + 7]);
  const StepCounters &counters = engine->counters();
  EXPECT_EQ(counters.rows, 40u);
  EXPECT_EQ(counters.tailRows, 4u);
  EXPECT_EQ(counters.logitRows, 2u);
  EXPECT_EQ(counters.macs, 40u * 1000 + 4 * 100 + 2 * 10);
  EXPECT_EQ(counters.dispatches, 4u);
  EXPECT_EQ(counters.barriers, 2u);
}

TEST_F(EngineTest, AStepThatAsksForNothingSkipsTheTail) {
  auto engine = make();
  const kv::SeqId seq = engine->openSequence();
  Rows rows;
  rows.add(3, seq, 0, false);
  ASSERT_TRUE(engine->run(rows.step()).ok());
  EXPECT_EQ(engine->counters().dispatches, 2u); // embed and route
  EXPECT_EQ(engine->counters().barriers, 0u);
}

TEST_F(EngineTest, RopeAnglesAreOfTheRowsPosition) {
  auto engine = make();
  const kv::SeqId seq = engine->openSequence();
  Rows rows;
  for (uint32_t p = 0; p < 50; ++p)
    rows.add(1, seq, p, p >= 40);
  rows.logits.clear();
  auto output = engine->run(rows.step());
  ASSERT_TRUE(output.ok());
  for (uint32_t i = 0; i < 10; ++i)
    EXPECT_FLOAT_EQ(output->hidden[i * kToyHidden + 3], std::cos(float(40 + i)));
}

TEST_F(EngineTest, ForcedExpertsReachTheirRows) {
  auto engine = make();
  const kv::SeqId seq = engine->openSequence();
  Rows rows;
  for (uint32_t p = 0; p < 3; ++p)
    rows.add(1, seq, p, false);
  const std::vector<int32_t> forced = {0, 1, 2, 3, 4, 5, /* layer 1: */ 7,
                                       6, 5, 4, 3, 2}; // [2 layers, 3 rows, 2]
  Step step = rows.step();
  step.forcedExperts = forced;
  std::vector<int32_t> seen;
  ASSERT_TRUE(engine
                  ->run(step,
                        [&](const TapView &tap) -> Status {
                          if (tap.name == "router_idx1")
                            for (uint32_t r = 0; r < tap.rows; ++r)
                              seen.push_back(*reinterpret_cast<const int32_t *>(tap.data + r * tap.rowBytes));
                          return {};
                        })
                  .ok());
  EXPECT_EQ(seen, (std::vector<int32_t>{7, 5, 3}));
  std::vector<int32_t> bad = forced;
  bad[6] = 8;
  rows.positions = {3, 4, 5};
  step = rows.step();
  step.forcedExperts = bad;
  EXPECT_EQ(engine->run(step).status().code(), Code::kInvalidArgument);
  step.forcedExperts = std::span(forced).first(6);
  EXPECT_EQ(engine->run(step).status().code(), Code::kInvalidArgument);
}

TEST_F(EngineTest, TapsSeeEachValueAndChangeNothing) {
  auto engine = make({.maxSequences = 2});
  const auto ids = tokens(30);
  const kv::SeqId a = engine->openSequence(), b = engine->openSequence();
  Rows rows, plain;
  for (uint32_t p = 0; p < 30; ++p) {
    rows.add(ids[p], a, p, p % 3 == 0);
    plain.add(ids[p], b, p, p % 3 == 0);
  }
  std::vector<std::string> names;
  auto tapped = engine->run(rows.step(), [&](const TapView &tap) -> Status {
    names.emplace_back(tap.name);
    if (tap.name == "h_embed") {
      EXPECT_EQ(tap.rows, 30u);
      EXPECT_EQ(tap.columns, kToyHidden);
      EXPECT_EQ(*reinterpret_cast<const float *>(tap.data + 4 * tap.rowBytes),
                float(ids[4] >= 30 ? 1 : ids[4] + 1));
    }
    if (tap.name == "h_norm")
      EXPECT_EQ(tap.rows, 10u);
    return {};
  });
  ASSERT_TRUE(tapped.ok());
  EXPECT_EQ(names, (std::vector<std::string>{"h_embed", "router_idx1", "h_norm"}));
  const std::vector<float> logits(tapped->logits.begin(), tapped->logits.end());
  auto whole = engine->run(plain.step());
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), whole->logits.begin(), whole->logits.end()));
}

TEST_F(EngineTest, AFailedStepLeavesEverySequenceAsItWas) {
  auto engine = make({.maxSequences = 2});
  const auto ids = tokens(100);
  const kv::SeqId seq = engine->openSequence();
  Rows rows;
  for (uint32_t p = 0; p < 80; ++p)
    rows.add(ids[p], seq, p, false);
  ASSERT_TRUE(engine->run(rows.step()).ok());
  const uint32_t pages = engine->cache().pool(kv::PageClass::kGlobal).used();
  Rows more;
  for (uint32_t p = 80; p < 100; ++p)
    more.add(ids[p], seq, p);
  for (uint32_t p = 100; p < 150; ++p)
    more.add(1, seq, p, false);
  const auto stop = [](const TapView &) -> Status { return {Code::kCancelled, "asked to stop"}; };
  EXPECT_EQ(engine->run(more.step(), stop).status().code(), Code::kCancelled);
  EXPECT_EQ(*engine->length(seq), 80u);
  EXPECT_EQ(engine->cache().pool(kv::PageClass::kGlobal).used(), pages);
  auto output = engine->run(more.step());
  ASSERT_TRUE(output.ok());
  expectHidden(*output, 19, ids, 99);
}

TEST_F(EngineTest, AStepThatFindsNoPagesLeavesEverySequenceAsItWas) {
  // Room for one sequence with its window and a step; the second wants more than is left.
  auto engine = make({.maxSequences = 2, .contextTokens = 1000, .kvBytes = kvBytesOf(12)});
  const auto ids = tokens(1000);
  const kv::SeqId a = engine->openSequence(), b = engine->openSequence();
  while (engine->cache().pool(kv::PageClass::kGlobal).free() > 1)
    ASSERT_TRUE(prefill(*engine, a, std::span(ids).subspan(*engine->length(a), 16), {}).ok());
  const uint32_t start = *engine->length(a), page = engine->cache().geometry().pageTokens;
  const kv::PageCounts used{engine->cache().pool(kv::PageClass::kSliding).used(),
                            engine->cache().pool(kv::PageClass::kGlobal).used()};
  const uint32_t most = start % page ? page - start % page : 0; // rows that `a` has room for
  Rows rows;
  for (uint32_t p = start; p < start + most + 1; ++p) // a takes the last page
    rows.add(ids[p], a, p, false);
  rows.add(ids[0], b, 0); // and there is none for b
  EXPECT_EQ(engine->run(rows.step()).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(*engine->length(a), start);
  EXPECT_EQ(*engine->length(b), 0u);
  EXPECT_EQ(engine->cache().pool(kv::PageClass::kSliding).used(), used.sliding);
  EXPECT_EQ(engine->cache().pool(kv::PageClass::kGlobal).used(), used.global);
  ASSERT_TRUE(engine->closeSequence(b).ok());
  Rows alone;
  alone.add(ids[start], a, start);
  auto output = engine->run(alone.step());
  ASSERT_TRUE(output.ok()) << output.status().message();
  expectHidden(*output, 0, ids, start);
}

TEST_F(EngineTest, TooFewBytesForKeysAndValuesAreAnError) {
  auto engine = Engine::create(load({G4_TOY_10}), {.kvBytes = 1000});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), Code::kInvalidArgument);
  EXPECT_NE(engine.status().message().find("K/V memory of 1000 bytes is too small"), std::string::npos)
      << engine.status().message();
}

/// The results are those of the same tokens without a cache: after a hit, in a fork, and from a file.
TEST_F(EngineTest, SequencesThatBeginOnOthersPagesGoOnRight) {
  auto engine = make({.maxSequences = 4, .poisonFreePages = true});
  kv::PrefixTree tree(engine->cache(), UINT64_MAX);
  const auto first = tokens(700, 3);
  std::vector<uint64_t> key(first.begin(), first.end());
  const kv::SeqId a = tree.open(key).seq;
  ASSERT_TRUE(prefill(*engine, a, std::span(first).first(690), {}).ok());
  ASSERT_TRUE(tree.insert(key, a).ok());
  const kv::SeqId fork = *engine->cache().fork(a);
  const std::string path = folder / "saved";
  ASSERT_TRUE(kv::saveSequence(engine->cache(), a, std::span(key).first(690), 5, path).ok());
  ASSERT_TRUE(engine->closeSequence(a).ok());

  // Another conversation that begins as the first did, but for the last few tokens.
  auto second = first;
  for (size_t i = 685; i < second.size(); ++i)
    second[i] = int32_t(i % 30);
  const auto opened = tree.open(std::vector<uint64_t>(second.begin(), second.end()));
  EXPECT_EQ(opened.tokens,
            685 / engine->cache().geometry().pageTokens * engine->cache().geometry().pageTokens);
  const auto saved = kv::SavedSequence::open(path, engine->cache().geometry(), 5);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const auto restored = saved->restore(engine->cache());
  ASSERT_TRUE(restored.ok()) << restored.status().message();

  const auto goesOn = [&](kv::SeqId seq, const std::vector<int32_t> &ids) {
    for (uint32_t p = *engine->length(seq); p < ids.size(); ++p) {
      Rows rows;
      rows.add(ids[p], seq, p);
      auto output = engine->run(rows.step());
      ASSERT_TRUE(output.ok()) << output.status().message();
      expectHidden(*output, 0, ids, p);
    }
  };
  goesOn(opened.seq, second);
  goesOn(*restored, first);
  auto third = first;
  third[690] = 1, third[695] = 2;
  goesOn(fork, third);
}

TEST_F(EngineTest, StepsThatBreakARuleAreRefusedWithOneLine) {
  auto engine = make({.maxSequences = 1, .contextTokens = 100});
  const kv::SeqId seq = engine->openSequence(), extra = engine->openSequence();
  const auto refused = [&](auto &&change) {
    Rows rows;
    rows.add(1, seq, 0);
    rows.add(2, seq, 1);
    change(rows);
    auto output = engine->run(rows.step());
    EXPECT_FALSE(output.ok());
    EXPECT_EQ(output.status().code(), Code::kInvalidArgument) << output.status().message();
    EXPECT_EQ(output.status().message().find('\n'), std::string::npos);
    EXPECT_EQ(*engine->length(seq), 0u);
  };
  refused([](Rows &r) { r = {}; });
  refused([](Rows &r) { r.tokens[0] = -1; });
  refused([](Rows &r) { r.tokens[0] = int32_t(kToyVocabulary); });
  refused([](Rows &r) { r.positions[1] = 2; });
  refused([](Rows &r) { r.positions[0] = 1; });
  refused([](Rows &r) { r.positions.pop_back(); });
  refused([](Rows &r) { r.tail = {1, 0}; });
  refused([](Rows &r) { r.tail = {0, 2}; });
  refused([](Rows &r) { r.tail = {0}; }); // logits of a row that is not a tail row
  refused([](Rows &r) { r.sequences[0] = kv::SeqId(99); });
  refused(
      [&](Rows &r) { r.sequences[1] = extra, r.positions[1] = 0; }); // more sequences than the engine is for
  refused([&](Rows &r) {
    for (uint32_t p = 2; p <= kToyMaxRows; ++p)
      r.add(1, seq, p, false);
  });
  refused([&](Rows &r) {
    for (uint32_t p = 2; p <= kToyMaxLogitRows; ++p)
      r.add(1, seq, p);
  });
}

TEST_F(EngineTest, TheContextEndsWhereItWasSaid) {
  auto engine = make({.contextTokens = 70});
  const kv::SeqId seq = engine->openSequence();
  const auto ids = tokens(71);
  EXPECT_EQ(prefill(*engine, seq, ids, {}).code(), Code::kInvalidArgument);
  EXPECT_TRUE(prefill(*engine, seq, std::span(ids).first(70), {}).ok());
  Rows rows;
  rows.add(1, seq, 70);
  EXPECT_EQ(engine->run(rows.step()).status().code(), Code::kInvalidArgument);
}

TEST_F(EngineTest, TwoArtifactsInOneProcessGiveTheirOwnResultsInEitherOrder) {
  for (bool swap : {false, true}) {
    auto first = Engine::create(load({swap ? G4_TOY_20 : G4_TOY_10}, "a.g4m"), {});
    auto second = Engine::create(load({swap ? G4_TOY_10 : G4_TOY_20}, "b.g4m"), {});
    ASSERT_TRUE(first.ok() && second.ok());
    for (auto [engine, scale] :
         {std::pair(first->get(), swap ? 20 : 10), std::pair(second->get(), swap ? 10 : 20)}) {
      Rows rows;
      rows.add(3, engine->openSequence(), 0);
      auto output = engine->run(rows.step());
      ASSERT_TRUE(output.ok());
      EXPECT_EQ(output->logits[0], float(4 + scale * 4));
    }
  }
}

TEST_F(EngineTest, AnArtifactThatThisMachineCannotRunIsRefused) {
  auto engine = Engine::create(load({.object = G4_TOY_10, .features = {"avx9000"}}), {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), Code::kIncompatible);
  EXPECT_NE(engine.status().message().find("'baseline' needs avx9000"), std::string::npos);
}

TEST_F(EngineTest, WeightsAreMadeUpOnlyForAModuleWithout) {
  EXPECT_EQ(Engine::create(load({.object = G4_TOY_10, .weightsMissing = true}), {}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Engine::create(load({G4_TOY_10}), {.weightSeed = 1}).status().code(), Code::kInvalidArgument);
  std::vector<float> bias;
  for (uint64_t seed : {7, 7, 8}) {
    auto engine = Engine::create(load({.object = G4_TOY_10, .weightsMissing = true}), {.weightSeed = seed});
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    Rows rows;
    rows.add(0, (*engine)->openSequence(), 0);
    auto output = (*engine)->run(rows.step());
    ASSERT_TRUE(output.ok());
    bias.push_back(output->logits[3] - 11);
  }
  EXPECT_EQ(bias[0], bias[1]);
  EXPECT_NE(bias[0], bias[2]);
  EXPECT_TRUE(bias[0] >= 0.5f && bias[0] <= 1.5f) << bias[0];
}

} // namespace
} // namespace g4::engine

#include "runtime/sched/LogitRow.h"
#include "runtime/sched/Scheduler.h"
#include "test/unit/engine/EngineTestBase.h"

#include <map>
#include <random>

namespace g4::sched {
namespace {

using engine::kToyContext, engine::kToyVocabulary;

constexpr int32_t kStop = 7;

/// What came of one answer.
struct Got {
  std::vector<int32_t> ids, prompt;
  std::vector<text::Chances> chances, promptChances;
  std::optional<AnswerEnd> end;
  uint64_t begunAt = 0, endedAt = 0; ///< steps
};

class SchedulerTest : public engine::ToyEngineTest {
protected:
  SchedulerTest() {
    rules.stopTokens = {kStop};
    rules.sampleable.emplace(kToyVocabulary, true);
  }

  void open(const SchedulerOptions &options, engine::EngineOptions engineOptions = {}) {
    scheduler.reset();
    engineOptions.maxSequences = options.maxSequences;
    engineOptions.poisonFreePages = true;
    engineOptions.threads = 1; // steps are short: on a busy machine threads would wait for each other
    engine = newEngine(engineOptions);
    ASSERT_TRUE(engine);
    auto made = Scheduler::create(*engine, rules, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    scheduler = *std::move(made);
  }

  std::unique_ptr<engine::Engine> newEngine(const engine::EngineOptions &options) {
    if (!module)
      module = load({G4_TOY_10});
    auto engine = engine::Engine::create(module, options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  static AnswerRequest request(std::vector<int32_t> ids, uint32_t tokens, uint64_t seed = 0) {
    AnswerRequest out;
    out.ids = std::move(ids);
    out.decode.maxTokens = tokens;
    out.decode.sampling.seed = seed;
    out.decode.sampling.temperature = seed ? 3.0f : 0.0f;
    return out;
  }
  AnswerId submit(AnswerRequest request) {
    auto got = std::make_shared<Got>();
    request.onBegin = [this, got] { got->begunAt = scheduler->stats().steps; };
    request.onToken = [got](AnswerToken token) {
      (token.ofPrompt ? got->prompt : got->ids).push_back(token.token.id);
      if (token.chances)
        (token.ofPrompt ? got->promptChances : got->chances).push_back(*token.chances);
    };
    request.onEnd = [this, got](AnswerEnd end) {
      EXPECT_FALSE(got->end) << "ended twice";
      got->end = std::move(end);
      got->endedAt = scheduler->stats().steps;
    };
    auto id = scheduler->submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    all[*id] = got;
    return *id;
  }
  void runAll() {
    for (int steps = 0; scheduler->busy(); ++steps) {
      ASSERT_LT(steps, 100000) << "does not end";
      ASSERT_TRUE(scheduler->step().ok());
    }
  }
  const Got &got(AnswerId id) { return *all.at(id); }

  /// The same with nobody else there: one sequence, a step at a time.
  Got solo(const AnswerRequest &request) {
    Got out;
    auto alone = newEngine({.threads = 1});
    const kv::SeqId seq = alone->openSequence();
    auto decoder = *Decoder::create(rules, request.decode);
    std::vector<int32_t> history = request.ids;
    for (size_t fed = 0; !decoder.done();) {
      std::vector<kv::SeqId> sequences{seq};
      std::vector<uint32_t> positions{uint32_t(fed)}, wanted{0};
      engine::Step step;
      step.tokens = std::span(history).subspan(fed++, 1);
      step.sequences = sequences;
      step.positions = positions;
      step.tailRows = step.logitRows = wanted;
      auto output = alone->run(step);
      EXPECT_TRUE(output.ok());
      const auto row = logitRow(*output, 0, kToyVocabulary);
      if (fed < request.ids.size()) {
        out.promptChances.push_back(text::chancesOf(row.logits, history[fed], 2));
        continue;
      }
      out.ids.push_back(decoder.next(row, history)->id);
      out.chances.push_back(text::chancesOf(row.logits, out.ids.back(), 2));
      if (!decoder.done() && fed >= alone->limits().contextTokens)
        decoder.end(Finish::kContext);
    }
    out.end = AnswerEnd{.finish = decoder.reason()};
    return out;
  }
  void expectAsAlone(AnswerId id, const AnswerRequest &request) {
    const Got alone = solo(request);
    EXPECT_EQ(got(id).ids, alone.ids) << "answer " << uint64_t(id);
    ASSERT_TRUE(got(id).end);
    EXPECT_TRUE(got(id).end->status.ok()) << got(id).end->status.message();
    EXPECT_EQ(got(id).end->finish, alone.end->finish);
  }
  /// Nothing runs: only the cache may hold pages.
  void expectNoLeaks() {
    for (const auto pageClass : {kv::PageClass::kSliding, kv::PageClass::kGlobal})
      EXPECT_EQ(engine->cache().pool(pageClass).used(), scheduler->cache().stats().pages[pageClass]);
    scheduler.reset();
    for (const auto pageClass : {kv::PageClass::kSliding, kv::PageClass::kGlobal})
      EXPECT_EQ(engine->cache().pool(pageClass).used(), 0u);
  }
  std::vector<int32_t> randomIds(size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t &id : ids)
      id = int32_t(random() % kToyVocabulary);
    return ids;
  }
  /// One sequence of `tokens` positions.
  uint64_t bytesFor(uint64_t tokens) {
    auto probe = newEngine({});
    const auto &cache = probe->cache();
    return (tokens / cache.geometry().pageTokens + 1) *
           (cache.pageBytes(kv::PageClass::kSliding) + cache.pageBytes(kv::PageClass::kGlobal));
  }
  uint32_t page() const { return engine->cache().geometry().pageTokens; }

  std::shared_ptr<const module::Module> module;
  TokenRules rules;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Scheduler> scheduler;
  std::map<AnswerId, std::shared_ptr<Got>> all;
  std::mt19937 random{12345};
  size_t lastLength = 0; ///< of a conversation's prompt
};

TEST_F(SchedulerTest, AnswersEqualThoseOfOneAtATime) {
  open({.maxSequences = 8, .prefillRows = 20});
  std::vector<std::pair<AnswerId, AnswerRequest>> requests;
  for (uint64_t i = 0; i < 24; ++i) {
    // Lengths below a page, of several windows, and up to a page's end.
    AnswerRequest r = request(randomIds(1 + (i * 37) % 350), 1 + uint32_t(i % 40), i);
    r.logprobs = 2;
    requests.push_back({submit(r), r});
    for (uint64_t j = 0; j < i % 5; ++j)
      ASSERT_TRUE(scheduler->step().ok());
  }
  runAll();
  for (const auto &[id, r] : requests) {
    expectAsAlone(id, r);
    const Got alone = solo(r);
    ASSERT_EQ(got(id).chances.size(), alone.chances.size());
    for (size_t i = 0; i < alone.chances.size(); ++i) {
      EXPECT_EQ(got(id).chances[i].token.logprob, alone.chances[i].token.logprob); // to the last bit
      EXPECT_EQ(got(id).chances[i].top[0].id, alone.chances[i].top[0].id);
    }
  }
  expectNoLeaks();
}

TEST_F(SchedulerTest, RunningAnswersKeepTheirPace) {
  open({.maxSequences = 8, .prefillRows = 16});
  std::vector<AnswerId> streams;
  for (int i = 0; i < 4; ++i) {
    AnswerRequest r = request(randomIds(5), 300, 0);
    r.decode.ignoreEos = true;
    streams.push_back(submit(r));
  }
  ASSERT_TRUE(scheduler->step().ok());
  submit(request(randomIds(3000), 1));
  const uint64_t before = scheduler->stats().computedTokens;
  for (int step = 0; step < 50; ++step) {
    const uint64_t computed = scheduler->stats().computedTokens, chosen = scheduler->stats().answerTokens;
    ASSERT_TRUE(scheduler->step().ok());
    EXPECT_EQ(scheduler->stats().answerTokens - chosen, 4u) << "every stream gets its token in every step";
    EXPECT_LE(scheduler->stats().computedTokens - computed, 16u);
  }
  EXPECT_EQ(scheduler->stats().computedTokens - before, 50u * 16);
}

TEST_F(SchedulerTest, PromptsTakeTurns) {
  open({.maxSequences = 4, .prefillRows = 16});
  AnswerRequest stream = request(randomIds(5), 2000);
  stream.decode.ignoreEos = true;
  submit(stream);
  ASSERT_TRUE(scheduler->step().ok());
  const AnswerId longOne = submit(request(randomIds(2000), 1));
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(scheduler->step().ok());
  const AnswerId shortOne = submit(request(randomIds(40), 1));
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(scheduler->step().ok());
  EXPECT_TRUE(got(shortOne).end);
  EXPECT_FALSE(got(longOne).end);
}

TEST_F(SchedulerTest, HigherPriorityRunsFirst) {
  open({.maxSequences = 1});
  std::map<int, AnswerId> ids;
  for (int priority : {0, 2, 1}) {
    AnswerRequest r = request(randomIds(10), 3);
    r.priority = priority;
    ids[priority] = submit(r);
  }
  runAll();
  EXPECT_LT(got(ids[2]).endedAt, got(ids[1]).begunAt + 1);
  EXPECT_LT(got(ids[1]).endedAt, got(ids[0]).begunAt + 1);
}

TEST_F(SchedulerTest, ASecondPromptComputesAtMostAPage) {
  open({.maxSequences = 2});
  for (size_t length : {33u, 64u, 65u, 128u, 500u, 1024u}) {
    const auto ids = randomIds(length);
    AnswerRequest r = request(ids, 5, 3);
    const AnswerId first = submit(r);
    runAll();
    const uint64_t computed = scheduler->stats().computedTokens;
    const AnswerId second = submit(r);
    runAll();
    EXPECT_LE(scheduler->stats().computedTokens - computed, page()) << length;
    EXPECT_EQ(got(second).ids, got(first).ids);
    EXPECT_EQ(got(second).end->cachedTokens, got(second).end->promptTokens - (scheduler->stats().computedTokens - computed));
  }
  expectNoLeaks();
}

TEST_F(SchedulerTest, ConversationsThatDropTheirLastTokensComputeAtMostAPage) {
  // A template writes the end of the last prompt differently once it is history.
  open({.maxSequences = 2});
  auto ids = randomIds(90);
  for (int turn = 0; turn < 20; ++turn) {
    AnswerRequest r = request(ids, 30, uint64_t(turn) + 1);
    r.decode.ignoreEos = true;
    const AnswerId id = submit(r);
    const uint64_t before = scheduler->stats().computedTokens;
    runAll();
    expectAsAlone(id, r);
    const size_t differs = turn ? lastLength - 4 : 0;
    if (turn)
      EXPECT_LE(scheduler->stats().computedTokens - before, ids.size() - differs + page()) << "turn " << turn;
    lastLength = ids.size();
    ids.resize(ids.size() - 4);
    const auto more = randomIds(41);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  expectNoLeaks();
}

TEST_F(SchedulerTest, AnEditedMessageComputesAtMostAPageMore) {
  open({.maxSequences = 2});
  rules.turn = 30;
  // The message's text, after its turn, role and line end: in a page's middle, and where a page begins.
  for (size_t text : {size_t(336), size_t(6 * page())}) {
    auto ids = randomIds(700);
    std::replace(ids.begin(), ids.end(), 30, 29);
    ids[text - 3] = ids[690] = 30; // the last message, and the beginning of the answer
    submit(request(ids, 3, 1));
    runAll();
    for (size_t differs : {text, text + 1, text + 100}) {
      auto edited = ids;
      edited[differs] = 28;
      const uint64_t before = scheduler->stats().computedTokens;
      AnswerRequest r = request(edited, 3, 1);
      const AnswerId id = submit(r);
      runAll();
      expectAsAlone(id, r);
      EXPECT_LE(scheduler->stats().computedTokens - before, ids.size() - text + page()) << text << " " << differs;
    }
  }
}

TEST_F(SchedulerTest, BranchPointsAreFoundTheThirdTime) {
  open({.maxSequences = 2});
  const auto common = randomIds(10 * 64); // longer than the window
  uint64_t computed[4] = {};
  for (uint64_t &c : computed) {
    auto ids = common;
    const auto own = randomIds(5 * 64);
    ids.insert(ids.end(), own.begin(), own.end());
    const uint64_t before = scheduler->stats().computedTokens;
    AnswerRequest r = request(ids, 2, 1);
    const AnswerId id = submit(r);
    runAll();
    expectAsAlone(id, r);
    c = scheduler->stats().computedTokens - before;
  }
  EXPECT_EQ(computed[0], 15u * 64);
  EXPECT_LE(computed[2], 5u * 64 + page());
  EXPECT_LE(computed[3], 5u * 64 + page());
}

TEST_F(SchedulerTest, AnswersToOnePromptShareIt) {
  open({.maxSequences = 8});
  const auto ids = randomIds(300);
  const auto unstopped = [](const std::vector<int32_t> &ids, uint64_t i) {
    AnswerRequest r = request(ids, 20, i + 1);
    r.decode.ignoreEos = true;
    return r;
  };
  std::vector<AnswerId> answers;
  for (uint64_t i = 0; i < 8; ++i)
    answers.push_back(submit(unstopped(ids, i)));
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(scheduler->step().ok());
  EXPECT_EQ(scheduler->stats().running, 8u);
  EXPECT_LE(scheduler->stats().computedTokens, 300u + 8 * page());
  EXPECT_LE(engine->cache().pool(kv::PageClass::kGlobal).used(), 300 / page() + 1 + 8 * 2);
  runAll();
  for (uint64_t i = 0; i < 8; ++i)
    expectAsAlone(answers[i], unstopped(ids, i));
  expectNoLeaks();
}

TEST_F(SchedulerTest, PreemptedAnswersAreTheSame) {
  const uint64_t bytes = bytesFor(700);
  open({.maxSequences = 6}, {.kvBytes = bytes});
  std::vector<std::pair<AnswerId, AnswerRequest>> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    AnswerRequest r = request(randomIds(100 + i * 7), 150, i + 1);
    r.decode.ignoreEos = true;
    requests.push_back({submit(r), r});
  }
  runAll();
  EXPECT_GT(scheduler->stats().preempted, 0u) << "the test needs fewer pages";
  for (const auto &[id, r] : requests)
    expectAsAlone(id, r);
  expectNoLeaks();
}

TEST_F(SchedulerTest, AnAnswerThatFillsAllPagesEndsByContext) {
  open({.maxSequences = 2}, {.kvBytes = bytesFor(400)});
  AnswerRequest r = request(randomIds(100), 2000, 1);
  r.decode.ignoreEos = true;
  const AnswerId id = submit(r);
  runAll();
  EXPECT_EQ(got(id).end->finish, Finish::kContext);
  EXPECT_TRUE(got(id).end->status.ok());
  EXPECT_GT(got(id).ids.size(), 50u);
  EXPECT_FALSE(scheduler->submit(request(randomIds(2000), 1)).ok()) << "can never fit";
  expectNoLeaks();
}

TEST_F(SchedulerTest, TheContextsEndIsReached) {
  open({.maxSequences = 2}, {.contextTokens = 128});
  AnswerRequest r = request(randomIds(120), 100, 1);
  r.decode.ignoreEos = true;
  const AnswerId id = submit(r);
  const AnswerId full = submit(request(randomIds(128), 100, 1));
  runAll();
  EXPECT_EQ(got(id).ids.size(), 9u); // the last one is chosen and finds no place
  EXPECT_EQ(got(id).end->finish, Finish::kContext);
  EXPECT_EQ(got(full).ids.size(), 1u);
  EXPECT_FALSE(scheduler->submit(request(randomIds(129), 1)).ok());
}

TEST_F(SchedulerTest, PromptChancesEqualThoseOfOneAtATime) {
  open({.maxSequences = 4, .prefillRows = 16}, {.kvBytes = bytesFor(900)});
  std::vector<std::pair<AnswerId, AnswerRequest>> requests;
  const auto ids = randomIds(200);
  for (uint64_t i = 0; i < 8; ++i) {
    AnswerRequest r = request(i % 2 ? ids : randomIds(150 + i), 60, i + 1);
    r.decode.ignoreEos = true;
    r.promptLogprobs = i != 3;
    r.logprobs = 2;
    requests.push_back({submit(r), r});
  }
  runAll();
  for (const auto &[id, r] : requests) {
    expectAsAlone(id, r);
    if (!r.promptLogprobs) {
      EXPECT_TRUE(got(id).prompt.empty());
      continue;
    }
    EXPECT_EQ(got(id).prompt, r.ids);
    const Got alone = solo(r);
    ASSERT_EQ(got(id).promptChances.size(), r.ids.size() - 1);
    for (size_t i = 0; i + 1 < r.ids.size(); ++i) {
      EXPECT_EQ(got(id).promptChances[i].token.id, r.ids[i + 1]);
      EXPECT_EQ(got(id).promptChances[i].token.logprob, alone.promptChances[i].token.logprob);
    }
  }
  expectNoLeaks();
}

TEST_F(SchedulerTest, ScoresAPromptWithoutAnAnswer) {
  open({.maxSequences = 2, .prefillRows = 16});
  AnswerRequest r = request(randomIds(150), 1);
  const Got alone = solo(r);
  r.decode.maxTokens = 0;
  r.promptLogprobs = true;
  const AnswerId id = submit(r);
  runAll();
  EXPECT_EQ(got(id).prompt, r.ids);
  EXPECT_TRUE(got(id).ids.empty());
  ASSERT_EQ(got(id).promptChances.size(), r.ids.size() - 1);
  for (size_t i = 0; i + 1 < r.ids.size(); ++i)
    EXPECT_EQ(got(id).promptChances[i].token.logprob, alone.promptChances[i].token.logprob);
  ASSERT_TRUE(got(id).end);
  EXPECT_EQ(got(id).end->finish, Finish::kLength);
  expectNoLeaks();
}

TEST_F(SchedulerTest, RefusesWhatCannotBeAnswered) {
  open({.maxSequences = 1});
  EXPECT_EQ(scheduler->submit(request({}, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(scheduler->submit(request({int32_t(kToyVocabulary)}, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(scheduler->submit(request({-1}, 1)).status().code(), Code::kInvalidArgument);
  AnswerRequest bad = request({1}, 1);
  bad.decode.sampling.topP = 2;
  EXPECT_EQ(scheduler->submit(bad).status().code(), Code::kInvalidArgument);
  bad = request({1}, 1);
  bad.decode.sampling.logitBias = {{99999, 1.0f}};
  EXPECT_EQ(scheduler->submit(bad).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(scheduler->busy());
  EXPECT_FALSE(Scheduler::create(*engine, rules, {.maxSequences = 0}).ok());
  EXPECT_FALSE(Scheduler::create(*engine, rules, {.maxSequences = engine::kToyMaxLogitRows + 1}).ok());
  const AnswerId none = submit(request({1}, 0));
  runAll();
  EXPECT_EQ(got(none).end->finish, Finish::kLength);
  EXPECT_TRUE(got(none).ids.empty());
}

/// Submissions, shared prefixes, cancellations, groups and preemption at random, in few pages.
TEST_F(SchedulerTest, NothingLeaksInThousandsOfRandomRequests) {
  constexpr int kRequests = 5000;
  open({.maxSequences = 6, .prefillRows = 40, .cacheBytes = bytesFor(500)}, {.kvBytes = bytesFor(900)});
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::pair<AnswerId, AnswerRequest>> checked;
  std::vector<AnswerId> ids;
  for (int i = 0; i < kRequests;) {
    std::vector<int32_t> prompt;
    if (!prompts.empty() && random() % 3) { // goes on from an earlier one
      prompt = prompts[random() % prompts.size()];
      prompt.resize(1 + random() % prompt.size());
    }
    const auto more = randomIds(1 + random() % 120);
    prompt.insert(prompt.end(), more.begin(), more.end());
    prompt.resize(std::min<size_t>(prompt.size(), 500));
    if (prompts.size() < 40)
      prompts.push_back(prompt);
    else
      prompts[random() % prompts.size()] = prompt;
    for (uint32_t n = 1 + (random() % 8 == 0 ? random() % 3 : 0); n > 0; --n, ++i) {
      AnswerRequest r = request(prompt, uint32_t(random() % 30), random() % 3 ? i + 1 : 0);
      r.priority = int(random() % 3);
      r.promptLogprobs = random() % 50 == 0;
      ids.push_back(submit(r));
      if (i % 100 == 0)
        checked.push_back({ids.back(), r});
    }
    if (random() % 4 == 0) {
      const AnswerId id = ids[ids.size() - 1 - random() % std::min<size_t>(ids.size(), 12)];
      const bool ended = got(id).end.has_value();
      scheduler->cancel(id);
      EXPECT_TRUE(got(id).end);
      EXPECT_TRUE(ended || got(id).end->finish == Finish::kCancelled);
    }
    while (scheduler->stats().waiting > 20 || (scheduler->busy() && random() % 3))
      ASSERT_TRUE(scheduler->step().ok());
    ASSERT_LE(scheduler->cache().stats().bytes, bytesFor(500));
  }
  runAll();
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.submitted, stats.finished + stats.cancelled);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_GT(stats.preempted, 0u);
  EXPECT_GT(stats.cachedTokens, 0u);
  EXPECT_GT(stats.cancelled, 0u);
  for (const auto &[id, got] : all)
    ASSERT_TRUE(got->end) << uint64_t(id);
  for (const auto &[id, r] : checked)
    if (got(id).end->finish != Finish::kCancelled)
      expectAsAlone(id, r);
  expectNoLeaks();
}

} // namespace
} // namespace g4::sched

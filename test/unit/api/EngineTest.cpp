#include "runtime/api/Engine.h"
#include "test/unit/api/ToyFile.h"

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

namespace g4::api {
namespace {

class EngineTest : public ToyFile {
protected:
  std::unique_ptr<Engine> open(EngineOptions options = {}) {
    options.threads = 2;
    auto engine = Engine::open(path, options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  static Request request(std::vector<int32_t> ids, uint32_t tokens, uint64_t seed = 1) {
    Request out;
    out.ids = std::move(ids);
    out.decode.maxTokens = tokens;
    out.decode.sampling.seed = seed;
    out.decode.sampling.temperature = 3;
    return out;
  }
  static std::vector<int32_t> ids(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> out(count);
    for (int32_t &id : out)
      id = int32_t(random() % 32);
    return out;
  }
  /// All tokens of each answer, and their ends.
  struct All {
    std::vector<std::vector<int32_t>> ids;
    std::vector<FinishEvent> ends;
  };
  static All drainAll(Stream &stream, uint32_t answers) {
    All all;
    all.ids.resize(answers);
    all.ends.resize(answers);
    while (auto event = stream.next()) {
      if (auto *token = std::get_if<TokenEvent>(&*event))
        all.ids.at(token->answer).push_back(token->id);
      else
        all.ends.at(std::get<FinishEvent>(*event).answer) = std::get<FinishEvent>(*event);
    }
    EXPECT_TRUE(stream.finished());
    return all;
  }
  /// As a session alone generates.
  std::vector<int32_t> alone(const Request &request) {
    auto model = Model::open(path, {});
    auto session = (*model)->newSession();
    EXPECT_TRUE((*session)->feed({.ids = request.ids}).ok());
    GenerateRequest generate;
    static_cast<sched::DecodeOptions &>(generate) = request.decode;
    return (*session)->generate(generate)->ids;
  }
};

TEST_F(EngineTest, ManyThreadsGetWhatEachWouldGetAlone) {
  auto engine = open({.maxSequences = 4});
  constexpr unsigned kThreads = 8, kEach = 6;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  std::vector<std::vector<int32_t>> expected;
  for (unsigned i = 0; i < kThreads * kEach; ++i)
    expected.push_back(alone(request(ids(1 + i * 7, i), 1 + i % 9, i)));
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = t * kEach; i < (t + 1) * kEach; ++i) {
        auto stream = engine->submit(request(ids(1 + i * 7, i), 1 + i % 9, i));
        if (!stream.ok() || drainAll(**stream, 1).ids[0] != expected[i])
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine->stats().finished, kThreads * kEach);
  EXPECT_EQ(engine->stats().running, 0u);
}

TEST_F(EngineTest, AnswersOfOneRequestDrawWithSeedsInARow) {
  auto engine = open();
  Request three = request(ids(70, 5), 12, 40);
  three.answers = 3;
  three.logprobs = 2;
  auto stream = engine->submit(three);
  ASSERT_TRUE(stream.ok());
  const All all = drainAll(**stream, 3);
  for (uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(all.ids[i], alone(request(ids(70, 5), 12, 40 + i)));
  EXPECT_NE(all.ids[0], all.ids[1]);
  EXPECT_EQ(all.ends[2].promptTokens, 70u);
  EXPECT_EQ(all.ends[2].tokens, all.ids[2].size());
  EXPECT_GE(all.ends[0].timings.total, all.ends[0].timings.firstToken);
}

TEST_F(EngineTest, ReportsChancesAndThePrompt) {
  auto engine = open();
  Request wanted = request(ids(9, 5), 3, 4);
  wanted.logprobs = 2;
  wanted.promptLogprobs = true;
  auto stream = engine->submit(wanted);
  std::vector<int32_t> prompt;
  uint32_t answer = 0;
  while (auto event = (*stream)->next())
    if (auto *token = std::get_if<TokenEvent>(&*event)) {
      EXPECT_EQ(token->chance.has_value(), !(token->ofPrompt && prompt.empty()));
      if (token->chance) {
        EXPECT_EQ(token->chance->id, token->id);
        EXPECT_LE(token->chance->logprob, 0);
        ASSERT_EQ(token->mostProbable.size(), 2u);
        EXPECT_GE(token->mostProbable[0].logprob, token->mostProbable[1].logprob);
      }
      if (token->ofPrompt) {
        EXPECT_EQ(answer, 0u) << "the prompt comes first";
        prompt.push_back(token->id);
      } else {
        ++answer;
      }
    }
  EXPECT_EQ(prompt, wanted.ids);
  EXPECT_EQ(answer, 3u);
}

TEST_F(EngineTest, CancellingEndsAnswersAndFreesPages) {
  auto engine = open({.maxSequences = 2, .cacheBytes = 0});
  std::vector<std::shared_ptr<Stream>> streams;
  for (uint32_t i = 0; i < 6; ++i) {
    Request endless = request(ids(40, i), 4000, i);
    endless.decode.ignoreEos = true;
    streams.push_back(*engine->submit(endless));
  }
  ASSERT_TRUE(streams[0]->next());
  streams[0]->cancel();
  streams[5]->cancel(); // still waits
  EXPECT_EQ(drainAll(*streams[0], 1).ends[0].finish, Finish::kCancelled);
  EXPECT_EQ(drainAll(*streams[5], 1).ends[0].finish, Finish::kCancelled);
  streams.clear(); // destroying cancels
  EXPECT_TRUE(engine->drain(std::chrono::seconds(20)));
  EXPECT_EQ(engine->submit(request({1}, 1)).status().code(), Code::kUnavailable);
  while (engine->stats().running || engine->stats().waiting)
    std::this_thread::yield();
  EXPECT_EQ(engine->stats().cancelled, 6u);
  EXPECT_EQ(engine->stats().usedKvBytes, 0u);
}

TEST_F(EngineTest, StreamsOutliveTheirEngine) {
  auto engine = open();
  Request endless = request(ids(40, 1), 4000, 2);
  endless.decode.ignoreEos = true;
  auto stream = *engine->submit(endless);
  ASSERT_TRUE(stream->next());
  engine.reset();
  EXPECT_EQ(drainAll(*stream, 1).ends[0].finish, Finish::kCancelled);
  stream->cancel();
}

TEST_F(EngineTest, TooManyRequestsAreRefused) {
  auto engine = open({.maxSequences = 1, .maxWaiting = 2});
  std::vector<std::shared_ptr<Stream>> streams;
  for (uint32_t i = 0; i < 3; ++i) {
    Request endless = request(ids(40, i), 4000, i);
    endless.decode.ignoreEos = true;
    auto stream = engine->submit(endless);
    ASSERT_TRUE(stream.ok());
    streams.push_back(*stream);
  }
  EXPECT_EQ(engine->submit(request({1}, 1)).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(engine->submit(request({99}, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine->submit(request({}, 1)).status().code(), Code::kInvalidArgument);
}

TEST_F(EngineTest, OnReadyIsCalledWhenThereIsSomethingNew) {
  auto engine = open();
  std::atomic<int> ready = 0;
  Request wanted = request(ids(4, 1), 20, 2);
  wanted.decode.ignoreEos = true;
  wanted.onReady = [&] { ++ready; };
  auto stream = *engine->submit(wanted);
  size_t events = 0;
  while (!stream->finished()) {
    events += stream->take().size();
    std::this_thread::yield();
  }
  EXPECT_EQ(events, 21u);
  EXPECT_GE(ready, 1);
  EXPECT_LE(ready, 21);
}

TEST_F(EngineTest, ARecordIsReplayedToTheSameTokens) {
  const std::string record = path + ".record";
  {
    auto engine = open({.maxSequences = 3, .record = record});
    std::vector<std::shared_ptr<Stream>> streams;
    for (uint32_t i = 0; i < 20; ++i) {
      Request r = request(ids(30 + i * 11, i % 4), 5 + i, i);
      r.answers = 1 + i % 2;
      streams.push_back(*engine->submit(r));
      if (i % 6 == 5)
        streams[i - 2]->cancel();
    }
    for (auto &stream : streams)
      while (stream->next()) {
      }
  }
  auto same = replay(path, record, {});
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(same->answers, 30u);
  EXPECT_GT(same->tokens, 50u);

  // Another token in the record is found.
  std::ifstream in(record);
  std::string text((std::istreambuf_iterator<char>(in)), {}), changed = text;
  const size_t at = changed.find("\"tokens\":[[1,") + 13;
  changed[at] = changed[at] == '1' ? '2' : '1';
  std::ofstream(record) << changed;
  auto other = replay(path, record, {});
  EXPECT_EQ(other.status().code(), Code::kDataLoss);
  EXPECT_NE(other.status().message().find("in the record, but"), std::string::npos) << other.status().message();
  // So is damage.
  for (const char *damaged : {"", "{}", "[]\n", "{\"g4_record\":1"}) {
    std::ofstream(record) << damaged;
    EXPECT_FALSE(replay(path, record, {}).ok()) << damaged;
  }
  std::ofstream(record) << text << "{\"step\":\n";
  EXPECT_EQ(replay(path, record, {}).status().code(), Code::kDataLoss);
  write({G4_TOY_20});
  std::ofstream(record) << text;
  EXPECT_EQ(replay(path, record, {}).status().code(), Code::kIncompatible);
  std::filesystem::remove(record);
}

} // namespace
} // namespace g4::api

#include "runtime/api/Bench.h"
#include "test/unit/api/ToyFile.h"

#include <map>
#include <set>

namespace g4::api {
namespace {

class BatchTest : public ToyFile {
protected:
  std::unique_ptr<Model> open(ModelOptions options) {
    auto model = Model::open(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *std::move(model) : nullptr;
  }
  static BatchRequest request(std::vector<int32_t> ids, uint32_t tokens, uint64_t seed = 0) {
    BatchRequest out{std::move(ids), {}};
    out.generate.maxTokens = tokens;
    out.generate.sampling.seed = seed;
    out.generate.sampling.temperature = seed ? 5.0f : 0.0f;
    return out;
  }
  static std::map<size_t, Result<Generation>> run(Model &model, std::span<const BatchRequest> requests) {
    std::map<size_t, Result<Generation>> results;
    const Status status = generateBatch(model, requests, [&](size_t index, Result<Generation> result) {
      EXPECT_TRUE(results.emplace(index, std::move(result)).second) << index << " twice";
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return results;
  }
};

TEST_F(BatchTest, ResultsEqualThoseOfOnePromptAtATime) {
  std::vector<BatchRequest> requests;
  for (uint64_t i = 0; i < 9; ++i) {
    std::vector<int32_t> ids(1 + i * 3 % 7, 2);
    for (size_t j = 1; j < ids.size(); ++j)
      ids[j] = int32_t((i + j * 5) % 29);
    requests.push_back(
        request(ids, uint32_t(1 + i % 4), i)); // drawn with different seeds, the first one greedy
  }
  auto solo = open({});
  for (const uint32_t sessions : {1u, 3u, 16u}) {
    auto model = open({.maxSessions = sessions});
    const auto results = run(*model, requests);
    ASSERT_EQ(results.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      auto session = solo->newSession();
      ASSERT_TRUE((*session)->feed({.ids = requests[i].ids}).ok());
      auto alone = (*session)->generate(requests[i].generate);
      ASSERT_TRUE(results.at(i).ok());
      EXPECT_EQ((*results.at(i)).ids, alone->ids) << i;
      EXPECT_EQ((*results.at(i)).finish, alone->finish);
    }
    EXPECT_TRUE(model->newSession().ok()); // all are closed
  }
}

TEST_F(BatchTest, SequencesShareSteps) {
  const std::vector<BatchRequest> requests(4, request({2, 5}, 5));
  auto model = open({.maxSessions = 4});
  run(*model, requests);
  EXPECT_EQ(model->counters().steps, 5u);
}

TEST_F(BatchTest, ABadRequestIsItsOwnFailure) {
  std::vector<BatchRequest> requests = {request({2, 5}, 2), request({}, 2), request({2, 99}, 2),
                                        request({2, 6}, 0)};
  requests[2] = request({2, 5}, 2);
  requests[2].generate.sampling.topP = 3;
  auto model = open({.maxSessions = 2});
  const auto results = run(*model, requests);
  EXPECT_TRUE(results.at(0).ok());
  EXPECT_EQ(results.at(1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(results.at(2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*results.at(3)).ids.size(), 0u);
}

TEST_F(BatchTest, TheContextEndsASequence) {
  auto model = open({.contextTokens = 8, .maxSessions = 2});
  const std::vector<BatchRequest> requests = {request({2, 5, 7}, 100),
                                              request(std::vector<int32_t>(9, 2), 1)};
  const auto results = run(*model, requests);
  EXPECT_EQ((*results.at(0)).finish, Finish::kContext);
  EXPECT_EQ((*results.at(0)).ids.size(), 6u); // as TheContextEndsAGeneration of a session
  EXPECT_EQ(results.at(1).status().code(), Code::kInvalidArgument);
}

TEST_F(BatchTest, StoppingBetweenStepsClosesEverything) {
  auto model = open({.maxSessions = 2});
  const std::vector<BatchRequest> requests(4, request({2, 5}, 100));
  int steps = 0;
  const Status status = generateBatch(
      *model, requests, [](size_t, Result<Generation>) {}, [&] { return ++steps < 3; });
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_TRUE(model->newSession().ok());
  EXPECT_EQ(generateBatch(*model, requests, [](size_t, Result<Generation>) {}).code(), Code::kOk);
}

TEST_F(BatchTest, ABenchmarkTimesEveryRepetitionAndTracesEveryDispatch) {
  auto model = open({.maxSessions = 3, .holds = true});
  auto probe = LimitsProbe::create(*model);
  ASSERT_TRUE(probe.ok()) << probe.status().message();
  for (const auto kind : {BenchCase::Kind::kPrefill, BenchCase::Kind::kDecode}) {
    std::set<uint32_t> dispatches;
    BenchOptions options;
    options.repetitions = 3;
    options.onTrace = [&](const TraceEvent &event) {
      dispatches.insert(event.dispatch);
      EXPECT_FALSE(event.kernel.empty());
      EXPECT_LE(event.beginNs, event.endNs);
    };
    const auto result = bench(*model, *probe, {kind, 5, 3, 2}, options);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->seconds.size(), 3u);
    EXPECT_EQ(result->limits.readBandwidth.size(), 4u); // before each and after the last
    EXPECT_EQ(result->steps, result->profile.steps);
    double busy = 0;
    for (const KernelUse &use : result->profile.kernels) {
      EXPECT_GE(use.calls, 1u) << use.kernel;
      EXPECT_GE(use.busySeconds, 0) << use.kernel;
      busy += use.busySeconds;
    }
    EXPECT_LE(busy, result->profile.seconds * model->threads());
    EXPECT_GE(result->profile.idleSeconds, 0);
    EXPECT_GT(dispatches.size(), 1u);
    EXPECT_EQ(*dispatches.rbegin() + 1, dispatches.size());
  }
  EXPECT_FALSE(bench(*model, *probe, {BenchCase::Kind::kDecode, 0, 1, 0}, {}).ok());
  EXPECT_FALSE(bench(*model, *probe, {BenchCase::Kind::kDecode, 1, 4, 0}, {}).ok());
  EXPECT_FALSE(bench(*model, *probe, {BenchCase::Kind::kPrefill, 1u << 20, 1, 0}, {}).ok());
  EXPECT_FALSE(bench(*open({}), *probe, {BenchCase::Kind::kDecode, 1, 1, 0}, {}).ok());
}

} // namespace
} // namespace g4::api

#include "runtime/api/g4.h"
#include "test/unit/api/ToyFile.h"

namespace g4::api {
namespace {

/// The toy model's best token is always the highest id: 31, but 30 and 31 are placeholders and never sampled.
constexpr int32_t kBest = 29, kBestUnsuppressed = 31;

class SessionTest : public ToyFile {
protected:
  std::unique_ptr<Model> open(ModelOptions options = {}) {
    auto model = Model::open(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *std::move(model) : nullptr;
  }
  static GenerateRequest greedy(uint32_t tokens) {
    GenerateRequest request;
    request.maxTokens = tokens;
    request.sampling.temperature = 0;
    return request;
  }
  const std::vector<int32_t> prompt = {2, 5, 7};
};

TEST_F(SessionTest, GeneratesAsManyTokensAsAsked) {
  auto model = open();
  auto session = model->newSession();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  auto out = (*session)->generate(greedy(5));
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->ids, std::vector<int32_t>(5, kBest));
  EXPECT_EQ(out->finish, Finish::kLength);
  EXPECT_EQ((*session)->length(), 7u); // the last token is sampled, not yet fed
}

TEST_F(SessionTest, SuppressedTokensComeOnlyWhenAllowed) {
  auto model = open();
  auto session = model->newSession();
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  GenerateRequest request = greedy(1);
  request.suppress = false;
  auto out = (*session)->generate(request);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->ids, std::vector<int32_t>{kBestUnsuppressed});
}

TEST_F(SessionTest, FeedingAfterAGenerationGoesOnWithItsLastToken) {
  std::vector<float> logits[2];
  for (int split : {0, 1}) {
    auto model = open();
    auto session = model->newSession();
    const auto keep = [&](std::span<const float> rows) -> Status {
      logits[split].assign(rows.begin(), rows.end());
      return {};
    };
    if (split) {
      ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
      ASSERT_TRUE((*session)->generate(greedy(2)).ok());
      const std::vector<int32_t> more = {9};
      ASSERT_TRUE((*session)->feed({.ids = more, .onLogits = keep}).ok());
    } else {
      const std::vector<int32_t> all = {2, 5, 7, kBest, kBest, 9};
      ASSERT_TRUE((*session)->feed({.ids = all, .onLogits = keep}).ok());
    }
    EXPECT_EQ((*session)->length(), 6u);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST_F(SessionTest, ResumingKeepsTheCommonPrefix) {
  auto model = open({.maxSessions = 2, .holds = true});
  auto session = model->newSession();
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  ASSERT_TRUE((*session)->hold().ok());
  ASSERT_TRUE((*session)->generate(greedy(3)).ok());
  std::vector<float> logits[2];
  const std::vector<int32_t> next = {2, 5, 7, kBest, 9, 4}; // the second generated token differs
  auto kept = (*session)->resume(next);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(*kept, 4u);
  EXPECT_EQ((*session)->length(), 4u);
  EXPECT_EQ((*session)->generate(greedy(1)).status().code(), Code::kInvalidArgument); // nothing fed since
  const auto keep = [&](int which) {
    return [&, which](std::span<const float> rows) -> Status {
      logits[which].assign(rows.begin(), rows.end());
      return {};
    };
  };
  ASSERT_TRUE((*session)->feed({.ids = std::span(next).subspan(*kept), .onLogits = keep(0)}).ok());
  auto fresh = model->newSession();
  ASSERT_TRUE((*fresh)->feed({.ids = next, .onLogits = keep(1)}).ok());
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(*(*session)->resume(next), next.size() - 1); // the last one's logits are to come again
  EXPECT_EQ(*(*session)->resume(std::vector<int32_t>{9}), 0u);
  EXPECT_EQ((*session)->resume({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*open()->newSession())->hold().code(), Code::kInvalidArgument);
}

TEST_F(SessionTest, LogitsOutliveOtherSessionsStepsAndFailedAttempts) {
  // Whether a penalty of 1.0005 moves the best token behind the next, a quarter below, depends on how large
  // the logits are: those of one token are small enough, those of three are not.
  GenerateRequest request = greedy(1);
  request.sampling.repetitionPenalty = 1.0005f;
  GenerateRequest excluded = greedy(1);
  for (int32_t id = 0; id <= kBestUnsuppressed; ++id)
    excluded.sampling.logitBias.push_back({id, -std::numeric_limits<float>::infinity()});
  const std::vector<int32_t> one(1, kBest), three(3, kBest);
  auto model = open({.maxSessions = 2});
  auto session = model->newSession(), other = model->newSession();
  const auto interrupt = [&](std::span<const int32_t> ids) {
    const auto kept = (*other)->resume(ids);
    ASSERT_TRUE(kept.ok());
    ASSERT_TRUE((*other)->feed({.ids = ids.subspan(*kept)}).ok());
  };
  ASSERT_TRUE((*session)->feed({.ids = one}).ok());
  interrupt(three);
  EXPECT_EQ((*session)->generate(excluded).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*other)->generate(request)->ids, std::vector<int32_t>{kBest - 1});
  EXPECT_EQ((*session)->generate(request)->ids, std::vector<int32_t>{kBest});
  // The same with logits that generate() computed.
  EXPECT_EQ((*session)->generate(excluded).status().code(), Code::kInvalidArgument);
  interrupt(one);
  EXPECT_EQ((*session)->generate(request)->ids, std::vector<int32_t>{kBest - 1}); // two are too many as well
}

TEST_F(SessionTest, ArtifactsWithoutMaximaServeAndWrongOnesAreRefused) {
  write({.object = G4_TOY_10, .maximaColumns = 0});
  auto model = open();
  auto session = model->newSession();
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  EXPECT_EQ((*session)->generate(greedy(2))->ids, std::vector<int32_t>(2, kBest));
  for (uint32_t columns : {3, 5, 64}) {
    write({.object = G4_TOY_10, .maximaColumns = columns});
    EXPECT_EQ(Model::open(path, {}).status().code(), Code::kDataLoss) << columns;
  }
}

TEST_F(SessionTest, TheContextEndsAGeneration) {
  auto model = open({.contextTokens = 8});
  auto session = model->newSession();
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  auto out = (*session)->generate(greedy(100));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->finish, Finish::kContext);
  EXPECT_EQ(out->ids.size(), 6u); // five more fit, and the last one's logits give a sixth
  EXPECT_EQ((*session)->feed({.ids = prompt}).code(), Code::kInvalidArgument);
}

TEST_F(SessionTest, NothingIsGeneratedBeforeAPrompt) {
  auto model = open();
  auto session = model->newSession();
  EXPECT_EQ((*session)->generate(greedy(1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*session)->feed({}).code(), Code::kInvalidArgument);
  ASSERT_TRUE((*session)->feed({.ids = prompt, .want = Want::kNothing}).ok());
  EXPECT_EQ((*session)->generate(greedy(1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(model->counters().tailRows, 0u);
}

TEST_F(SessionTest, CancellingBetweenStepsIsAStatus) {
  auto model = open();
  auto session = model->newSession();
  const Status status = (*session)->feed(
      {.ids = prompt, .chunk = 1, .onProgress = [](uint32_t done, uint32_t) { return done < 2; }});
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ((*session)->length(), 2u);
}

TEST_F(SessionTest, ClosedSessionsMakeRoomForOthers) {
  auto model = open();
  auto first = model->newSession();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(model->newSession().status().code(), Code::kResourceExhausted);
  *first = nullptr;
  EXPECT_TRUE(model->newSession().ok());
}

TEST_F(SessionTest, TextNeedsATokenizer) {
  auto model = open();
  EXPECT_EQ(model->tokenize("x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(model->chatPrompt({.messages = {{"user", "x"}}}).status().code(), Code::kInvalidArgument);
}

TEST_F(SessionTest, BadOptionsAreRefused) {
  auto model = open();
  auto session = model->newSession();
  ASSERT_TRUE((*session)->feed({.ids = prompt}).ok());
  GenerateRequest request = greedy(1);
  request.sampling.topP = 2;
  EXPECT_EQ((*session)->generate(request).status().code(), Code::kInvalidArgument);
  request = greedy(1);
  request.stops = {""};
  EXPECT_EQ((*session)->generate(request).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(Model::open(path, {.variant = "none"}).ok());
  EXPECT_FALSE(Model::open(path + ".absent", {}).ok());
}

} // namespace
} // namespace g4::api

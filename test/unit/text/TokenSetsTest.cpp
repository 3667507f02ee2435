#include "runtime/text/TokenSets.h"

#include "test/unit/text/TextTestSupport.h"

namespace g4::text::test {
namespace {

TEST(TokenSetsTest, GenerationStopsAtEosTurnEndAndToolResponse) {
  EXPECT_EQ(stopTokens(*realVocabulary().tokenizer), (std::vector<int32_t>{1, 50, 106}));
  // The same texts under other ids.
  EXPECT_EQ(stopTokens(*nanoVocabulary().tokenizer), (std::vector<int32_t>{1, 9, 16}));
}

TEST(TokenSetsTest, LiteralEndOfSentenceMarkDoesNotStop) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  const auto stops = stopTokens(tokenizer);
  const auto mark = tokenizer.find("</s>");
  ASSERT_TRUE(mark);
  EXPECT_EQ(*mark, 212);
  EXPECT_EQ(std::count(stops.begin(), stops.end(), *mark), 0);
}

TEST(TokenSetsTest, MediaUnusedAndSuppressedTokensAreNeverSampled) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  const TokenBitmask mask = sampleableTokens(tokenizer);
  for (const char *text : {"<|image|>", "<|audio|>", "<|video|>", "<|image>", "<image|>", "<|audio>",
                           "<audio|>", "<unused0>", "<unused49>", "<unused6226>"}) {
    ASSERT_TRUE(tokenizer.find(text)) << text;
    EXPECT_FALSE(mask.test(*tokenizer.find(text))) << text;
  }
  for (const char *text : {"<turn|>", "<|channel>", "<|tool_call>", "the", "</s>", "<unused"}) {
    if (auto id = tokenizer.find(text)) {
      EXPECT_TRUE(mask.test(*id)) << text;
    }
  }
  const auto fixture = fromGguf(kFixtureModel);
  ASSERT_TRUE(fixture);
  const TokenBitmask fixtureMask = sampleableTokens(*fixture->tokenizer);
  for (int32_t id : {5, 6, 300, 411, 512, 613, 714, 815, 916, 1017, 1018, 1019})
    EXPECT_FALSE(fixtureMask.test(id)) << id;
  EXPECT_TRUE(fixtureMask.test(301));
}

TEST(TokenSetsTest, BitmaskIgnoresIdsOutOfRangeAndKeepsSpareBitsClear) {
  TokenBitmask mask(33, true);
  EXPECT_EQ(mask.words().size(), 2u);
  EXPECT_EQ(mask.words()[1], 1u);
  mask.set(-1, false);
  mask.set(33, true);
  EXPECT_EQ(mask.words()[1], 1u);
  EXPECT_FALSE(mask.test(33));
  EXPECT_FALSE(mask.test(-1));
  mask.set(32, false);
  EXPECT_FALSE(mask.test(32));
}

} // namespace
} // namespace g4::text::test

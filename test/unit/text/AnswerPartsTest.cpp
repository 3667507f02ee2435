#include "runtime/text/AnswerParts.h"

#include "test/unit/text/TextTestSupport.h"

namespace g4::text::test {
namespace {

struct Parts {
  std::string answer, thought;
};

/// `text` as the model would write it, its marks as tokens or spelled out.
Parts divide(std::string_view text, Match match) {
  const Tokenizer &tokenizer = *nanoVocabulary().tokenizer;
  auto ids = tokenizer.encode(text, match);
  EXPECT_TRUE(ids.ok());
  AnswerParts parts(tokenizer);
  Parts out;
  const auto add = [&](const AnswerParts::Piece &piece) {
    (piece.part == Part::kThought ? out.thought : out.answer) += piece.text;
  };
  for (int32_t id : *ids)
    add(parts.push(id));
  add(parts.finish());
  return out;
}

TEST(AnswerPartsTest, AThoughtStandsBetweenTheMarksAfterTheChannelsName) {
  const Parts parts = divide("<|channel>thought\nLet me see.\nTwo.<channel|>It is 2.", Match::kSpecial);
  EXPECT_EQ(parts.thought, "Let me see.\nTwo.");
  EXPECT_EQ(parts.answer, "It is 2.");
}

TEST(AnswerPartsTest, TextWithoutMarksIsAnswer) {
  const Parts parts = divide("Two\nlines.", Match::kSpecial);
  EXPECT_EQ(parts.thought, "");
  EXPECT_EQ(parts.answer, "Two\nlines.");
}

TEST(AnswerPartsTest, MarksSpelledOutAreText) {
  const Parts parts = divide("<|channel>thought\nno<channel|>", Match::kPlain);
  EXPECT_EQ(parts.thought, "");
  EXPECT_EQ(parts.answer, "<|channel>thought\nno<channel|>");
}

TEST(AnswerPartsTest, EmptyAndUnfinishedThoughtsAreThoughts) {
  EXPECT_EQ(divide("<|channel>thought\n<channel|>Yes.", Match::kSpecial).answer, "Yes.");
  const Parts open = divide("<|channel>thought\nhm", Match::kSpecial);
  EXPECT_EQ(open.thought, "hm");
  EXPECT_EQ(open.answer, "");
  EXPECT_EQ(divide("A<|channel>thou", Match::kSpecial).answer, "A");
}

} // namespace
} // namespace g4::text::test

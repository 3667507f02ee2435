#include "runtime/text/Detokenizer.h"

#include "test/unit/text/TextTestSupport.h"

#include "runtime/text/Utf8.h"

namespace g4::text::test {
namespace {

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Prefix prefix = readUtf8(text);
    if (!prefix.complete)
      return false;
    text.remove_prefix(prefix.bytes);
  }
  return true;
}

std::vector<int32_t> byteIds(const Tokenizer &tokenizer, std::string_view bytes) {
  std::vector<int32_t> out;
  for (char c : bytes) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", uint8_t(c));
    out.push_back(*tokenizer.find(name));
  }
  return out;
}

std::string stream(const Tokenizer &tokenizer, const std::vector<int32_t> &ids) {
  Detokenizer detokenizer(tokenizer, {});
  std::string out;
  for (int32_t id : ids) {
    const std::string piece = detokenizer.push(id);
    EXPECT_TRUE(isUtf8(piece));
    out += piece;
  }
  const std::string tail = detokenizer.finish();
  EXPECT_TRUE(isUtf8(tail));
  return out + tail;
}

TEST(DetokenizerTest, StreamingOneIdAtATimeRestoresEveryText) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  int cases = 0;
  for (const Json &row : readJsonLines(G4_TEST_DATA "/text/tokenizer_cases.jsonl")) {
    if (row.contains("bytes_hex") || !row["roundtrip"].get<bool>())
      continue;
    ++cases;
    EXPECT_EQ(stream(tokenizer, ids(row["ids_plain"])), row["text"].get<std::string>()) << row["id"];
  }
  EXPECT_GT(cases, 300);
}

TEST(DetokenizerTest, SplitCharacterComesWithItsLastByte) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  Detokenizer detokenizer(tokenizer, {});
  const auto bytes = byteIds(tokenizer, "\xf0\x9f\x98\x80");
  EXPECT_EQ(detokenizer.push(bytes[0]), "");
  EXPECT_EQ(detokenizer.push(bytes[1]), "");
  EXPECT_EQ(detokenizer.push(bytes[2]), "");
  EXPECT_EQ(detokenizer.push(bytes[3]), "\xf0\x9f\x98\x80");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(DetokenizerTest, LeadingSpaceIsKept) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  auto tokens = tokenizer.encode(" leading", Match::kPlain);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(stream(tokenizer, *tokens), " leading");
}

TEST(DetokenizerTest, BrokenBytesBecomeReplacementCharacters) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  const struct {
    const char *bytes, *text;
  } cases[] = {
      {"\xff", "\xef\xbf\xbd"},
      {"\xe2\x82", "\xef\xbf\xbd"},                             // unfinished at the end
      {"\xe2\x82z", "\xef\xbf\xbdz"},                           // cut off by another character
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // a surrogate
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 // an overlong slash
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // above U+10FFFF
  };
  for (const auto &[bytes, text] : cases)
    EXPECT_EQ(stream(tokenizer, byteIds(tokenizer, bytes)), text);
}

TEST(DetokenizerTest, SpecialTokensAreShownOrLeftOutAsAsked) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  const int32_t turn = *tokenizer.find("<turn|>"), channel = *tokenizer.find("<|channel>");
  Detokenizer shown(tokenizer, {}), hidden(tokenizer, {.skipSpecial = true});
  EXPECT_EQ(shown.push(turn) + shown.push(channel), "<turn|><|channel>");
  EXPECT_EQ(hidden.push(turn) + hidden.push(channel), "");
}

TEST(DetokenizerTest, IdsOutOfRangeGiveNoText) {
  Detokenizer detokenizer(*realVocabulary().tokenizer, {});
  EXPECT_EQ(detokenizer.push(-1) + detokenizer.push(1 << 30) + detokenizer.finish(), "");
}

TEST(DetokenizerTest, RandomIdsNeverGiveHalfACharacter) {
  const Tokenizer &tokenizer = *realVocabulary().tokenizer;
  std::vector<int32_t> tokens;
  uint64_t state = 5;
  for (int i = 0; i < 100000; ++i) {
    state = mixBits(state + 0x9e3779b97f4a7c15ull);
    tokens.push_back(int32_t(state % 2 ? 200 + state / 2 % 300 : state / 2 % tokenizer.size()));
  }
  stream(tokenizer, tokens); // checks each piece
}

} // namespace
} // namespace g4::text::test

#include "test/unit/text/TextTestSupport.h"

#include <cstring>

namespace g4::text::test {
namespace {

std::string buildError(const emit::TokenizerSource &source) {
  auto blob = emit::buildTokenizerTables(source);
  return blob.ok() ? "" : blob.status().message();
}

TEST(TokenizerTablesTest, SameSourceGivesSameBytes) {
  auto first = emit::buildTokenizerTables(tinySource({"ab"}, {"a b"}));
  auto second = emit::buildTokenizerTables(tinySource({"ab"}, {"a b"}));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(TokenizerTablesTest, BadVocabulariesAreNamedErrors) {
  auto source = tinySource();
  source.types.pop_back();
  EXPECT_NE(buildError(source).find("token types"), std::string::npos);

  source = tinySource();
  source.types[3] = 9;
  EXPECT_EQ(buildError(source), "token 3 has type 9; types go from 1 to 6");

  source = tinySource();
  source.tokens[6 + 65] = "gone"; // <0x41>
  EXPECT_EQ(buildError(source), "the vocabulary has no byte token <0x41>");

  source = tinySource({}, {"a b"});
  EXPECT_EQ(buildError(source), "merge 0 'a b' does not join two tokens into a third");
  source = tinySource({}, {"ab"});
  EXPECT_EQ(buildError(source), "merge 0 'ab' does not join two tokens into a third");

  source = tinySource();
  source.eos = 100000;
  EXPECT_NE(buildError(source).find("eos token id is 100000"), std::string::npos);

  source = tinySource();
  source.suppress = {100000};
  EXPECT_NE(buildError(source).find("suppressed token id 100000"), std::string::npos);

  source = tinySource();
  source.tokens[0] = std::string(300, 'x');
  EXPECT_NE(buildError(source).find("special token 0 has 300 bytes"), std::string::npos);

  EXPECT_NE(buildError({}).find("0 tokens"), std::string::npos);
}

TEST(TokenizerTablesTest, RepeatedTextsFindTheFirstIdAndRepeatedMergesKeepTheBestRank) {
  auto source = tinySource({"ab", "ab", "bc"}, {"a b", "b c", "a b"});
  const auto vocabulary = fromSource(source);
  ASSERT_TRUE(vocabulary);
  EXPECT_EQ(*vocabulary->tokenizer->find("ab"), int32_t(source.tokens.size()) - 3);
  auto tokens = vocabulary->tokenizer->encode("abc", Match::kPlain);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->front(), int32_t(source.tokens.size()) - 3);
}

TEST(TokenizerTablesTest, OtherTokenizerModelsAreRefused) {
  // A GGUF header with one key: tokenizer.ggml.model = "llama".
  std::string bytes = "GGUF";
  const auto put = [&](uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      bytes += char(value >> (8 * i));
  };
  put(3, 4), put(0, 8), put(1, 8);
  const std::string key = "tokenizer.ggml.model", value = "llama";
  put(key.size(), 8), bytes += key, put(8, 4), put(value.size(), 8), bytes += value;
  auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), {});
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto source = emit::tokenizerSourceFromGguf(**file);
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.status().message(), "tokenizer.ggml.model is 'llama'; only 'gemma4' is supported");
}

/// Tables of the tiny vocabulary with one thing changed.
class MalformedTables : public ::testing::Test {
protected:
  void SetUp() override {
    auto built = emit::buildTokenizerTables(tinySource({"ab", "abc"}, {"a b", "ab c"}));
    ASSERT_TRUE(built.ok());
    blob = *built;
    ASSERT_TRUE(Tokenizer::create(blob).ok());
  }
  TokenizerHeader &header() { return *reinterpret_cast<TokenizerHeader *>(blob.data()); }
  template <class T> T *items(TokenizerSection section) {
    return reinterpret_cast<T *>(blob.data() + header().sections[section].offset);
  }
  Code reject() {
    auto tokenizer = Tokenizer::create(blob);
    return tokenizer.ok() ? Code::kOk : tokenizer.status().code();
  }
  std::vector<std::byte> blob;
};

TEST_F(MalformedTables, ShorterThanTheHeader) {
  blob.resize(20);
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, EveryTruncation) {
  for (size_t size = 0; size < blob.size(); size += 7) {
    std::vector<std::byte> part(blob.begin(), blob.begin() + ptrdiff_t(size));
    EXPECT_FALSE(Tokenizer::create(part).ok()) << size;
  }
}
TEST_F(MalformedTables, Misaligned) {
  std::vector<std::byte> shifted(blob.size() + 8);
  std::memcpy(shifted.data() + 4, blob.data(), blob.size());
  auto tokenizer = Tokenizer::create(std::span(shifted).subspan(4, blob.size()));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), Code::kInvalidArgument);
}
TEST_F(MalformedTables, Magic) {
  header().magic[0] = 'X';
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, Version) {
  header().version = 2;
  EXPECT_EQ(reject(), Code::kIncompatible);
}
TEST_F(MalformedTables, HeaderBytes) {
  header().headerBytes = 8;
  EXPECT_EQ(reject(), Code::kIncompatible);
}
TEST_F(MalformedTables, TotalBytes) {
  ++header().totalBytes;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, SectionRanges) {
  const TokenizerHeader good = header();
  for (uint32_t i = 0; i < kSectionCount; ++i)
    for (SectionRange bad :
         {SectionRange{good.totalBytes + 8, 1}, SectionRange{good.sections[i].offset, ~0ull},
          SectionRange{good.sections[i].offset + 4, 1}, SectionRange{0, 1}, SectionRange{~7ull, 1}}) {
      header() = good;
      header().sections[i] = bad;
      EXPECT_EQ(reject(), Code::kDataLoss) << i;
    }
}
TEST_F(MalformedTables, TokenOffsets) {
  items<uint32_t>(kTokenOffsets)[3] = 1u << 30;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TokenTypes) {
  items<uint8_t>(kTokenTypes)[3] = 7;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TokenBits) {
  for (uint32_t bits : {0u, 3u, 32u, 64u, ~0u}) {
    header().tokenBits = bits;
    EXPECT_EQ(reject(), Code::kDataLoss) << bits;
  }
}
TEST_F(MalformedTables, MergeBits) {
  for (uint32_t bits : {0u, 9u, 32u, 64u, ~0u}) {
    header().mergeBits = bits;
    EXPECT_EQ(reject(), Code::kDataLoss) << bits;
  }
}
TEST_F(MalformedTables, TokenBuckets) {
  items<uint32_t>(kTokenBuckets)[1] = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TokenIds) {
  items<uint32_t>(kTokenIds)[0] = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, MergeBuckets) {
  items<uint32_t>(kMergeBuckets)[0] = 1;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, Merges) {
  items<MergeEntry>(kMerges)[0].result = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, MergeRanks) {
  items<MergeEntry>(kMerges)[0].rank = 2; // there are two merges
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, ByteTokens) {
  items<uint32_t>(kByteTokens)[255] = 0; // <pad> is no byte token
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, SpecialIds) {
  header().bos = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TrieNodes) {
  items<TrieNode>(kTrieNodes)[0].edgeCount = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TrieTokens) {
  items<TrieNode>(kTrieNodes)[1].token = 1u << 20;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TrieCycle) {
  items<TrieEdge>(kTrieEdges)[1].child = 1;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, TrieEdgeOrder) {
  items<TrieEdge>(kTrieEdges)[0].byte = 256;
  EXPECT_EQ(reject(), Code::kDataLoss);
}
TEST_F(MalformedTables, AnyChangedByteIsRefusedOrHarmless) {
  // What passes the check must be safe to use, whatever it answers.
  for (size_t at = 0; at < blob.size(); at += 3) {
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      blob[at] ^= std::byte(flip);
      if (auto tokenizer = Tokenizer::create(blob); tokenizer.ok()) {
        auto tokens = tokenizer->encode("abcabc <turn|> \xff<|\"|>", Match::kSpecial);
        if (tokens.ok())
          tokenizer->decodeBytes(*tokens, false);
      }
      blob[at] ^= std::byte(flip);
    }
  }
}

} // namespace
} // namespace g4::text::test

// What files of several makers say about the same vocabulary, and that all of it means the same.
#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "runtime/text/TokenSets.h"
#include "test/support/GgufBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace g4 {
namespace {
using test::bytesOf;
using B = test::GgufBuilder;

// Token types of GGUF.
enum : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kByte = 6 };

/// Ids: 0 to 4 special tokens, 5 to 260 bytes, then the rest.
struct VocabularyFile {
  int32_t eosType = kControl;
  std::string model = "gemma4", pre = {};
  std::optional<bool> addBos = {};

  std::string build() const {
    std::string tokens, types;
    uint32_t count = 0;
    const auto add = [&](const std::string &token, int32_t type) {
      tokens += test::ggufString(token);
      types += bytesOf(type);
      ++count;
    };
    add("<pad>", kControl);
    add("<eos>", eosType);
    add("<bos>", kControl);
    add("<unk>", kControl);
    add("</s>", kControl); // looks like an end and is ordinary text
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      add(text, kByte);
    }
    add("<|tool_response>", kUserDefined);
    add("<turn|>", kControl);
    for (const char *text : {"a", "b", "ab"})
      add(text, kNormal);
    B b;
    b.addString("tokenizer.ggml.model", model)
        .addArray("tokenizer.ggml.tokens", B::kString, count, tokens)
        .addArray("tokenizer.ggml.token_type", B::kI32, count, types)
        .addArray("tokenizer.ggml.merges", B::kString, 1, test::ggufString("a b"))
        .add("tokenizer.ggml.bos_token_id", B::kU32, bytesOf(2u))
        .add("tokenizer.ggml.eos_token_id", B::kU32, bytesOf(1u));
    if (!pre.empty())
      b.addString("tokenizer.ggml.pre", pre);
    if (addBos)
      b.add("tokenizer.ggml.add_bos_token", B::kBool, bytesOf<uint8_t>(*addBos));
    return b.build();
  }
};

struct Vocabulary {
  std::vector<std::byte> blob;
  std::optional<text::Tokenizer> tokenizer;
};

Vocabulary load(const VocabularyFile &stored) {
  Vocabulary vocabulary;
  const std::string bytes = stored.build();
  auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), {});
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto source = emit::tokenizerSourceFromGguf(**file);
  EXPECT_TRUE(source.ok()) << source.status().message();
  auto blob = source.ok() ? emit::buildTokenizerTables(*source) : source.status();
  if (blob.ok()) {
    vocabulary.blob = *std::move(blob);
    auto tokenizer = text::Tokenizer::create(vocabulary.blob);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    if (tokenizer.ok())
      vocabulary.tokenizer = *tokenizer;
  }
  return vocabulary;
}

TEST(VocabularyFileTest, GenerationEndsAlikeWhateverTypeTheTokensHave) {
  for (int32_t eosType : {kNormal, kControl}) {
    const Vocabulary vocabulary = load({.eosType = eosType});
    ASSERT_TRUE(vocabulary.tokenizer);
    EXPECT_EQ(text::stopTokens(*vocabulary.tokenizer), (std::vector<int32_t>{1, 261, 262})) << eosType;
  }
}

TEST(VocabularyFileTest, APromptBeginsWithOneBosWhateverTheFileSays) {
  for (std::optional<bool> addBos : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    const Vocabulary vocabulary = load({.addBos = addBos});
    ASSERT_TRUE(vocabulary.tokenizer);
    for (const char *prompt : {"ab", "<bos>ab"}) {
      auto ids = vocabulary.tokenizer->encodePrompt(prompt, text::Match::kSpecial);
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(*ids, (std::vector<int32_t>{2, 265})) << prompt;
    }
  }
}

TEST(VocabularyFileTest, OllamaCallsItLlamaWithAGemma4Split) {
  const Vocabulary vocabulary = load({.model = "llama", .pre = "gemma4"});
  ASSERT_TRUE(vocabulary.tokenizer);
  auto ids = vocabulary.tokenizer->encode("ab", text::Match::kPlain);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, std::vector<int32_t>{265});
  const std::string other = VocabularyFile{.model = "llama", .pre = "default"}.build();
  auto file = gguf::File::parse(std::as_bytes(std::span(other)), {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(emit::tokenizerSourceFromGguf(**file).status().message(),
            "tokenizer.ggml.model is 'llama'; only 'gemma4' is supported");
}

} // namespace
} // namespace g4

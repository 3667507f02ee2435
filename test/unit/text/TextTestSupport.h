/// What the tests of runtime/text share: vocabularies built from model files, and JSON-lines cases.
#pragma once

#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "compiler/import/gguf/Gguf.h"
#include "runtime/text/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace g4::text::test {

using Json = nlohmann::ordered_json;

inline const std::string kRealVocabulary = G4_TEST_DATA "/vocab/gemma-4-vocab.gguf";
inline const std::string kFixtureModel = G4_TEST_DATA "/text/models/unified/unified-F32.gguf";
inline const std::string kNanoModel = G4_MODELS "/gemma4-nano/gemma4-nano-Q4_0.gguf";

/// A tokenizer and the bytes it lies in.
struct Vocabulary {
  std::vector<std::byte> blob;
  std::optional<Tokenizer> tokenizer;
  std::string chatTemplate;
};

inline std::unique_ptr<Vocabulary> fromSource(const emit::TokenizerSource &source) {
  auto vocabulary = std::make_unique<Vocabulary>();
  auto blob = emit::buildTokenizerTables(source);
  EXPECT_TRUE(blob.ok()) << blob.status().message();
  if (!blob.ok())
    return nullptr;
  vocabulary->blob = *std::move(blob);
  auto tokenizer = Tokenizer::create(vocabulary->blob);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  if (!tokenizer.ok())
    return nullptr;
  vocabulary->tokenizer = *tokenizer;
  return vocabulary;
}

inline std::unique_ptr<Vocabulary> fromGguf(const std::string &path) {
  auto file = gguf::File::open(path, {});
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok())
    return nullptr;
  auto source = emit::tokenizerSourceFromGguf(**file);
  EXPECT_TRUE(source.ok()) << source.status().message();
  auto vocabulary = source.ok() ? fromSource(*source) : nullptr;
  if (vocabulary)
    if (const std::string *chatTemplate = (*file)->getString("tokenizer.chat_template"))
      vocabulary->chatTemplate = *chatTemplate;
  return vocabulary;
}

/// Built once per test program; never freed, so that its order of destruction cannot matter.
inline const Vocabulary &realVocabulary() {
  static const Vocabulary *vocabulary = fromGguf(kRealVocabulary).release();
  return *vocabulary;
}
inline const Vocabulary &nanoVocabulary() {
  static const Vocabulary *vocabulary = fromGguf(kNanoModel).release();
  return *vocabulary;
}

inline std::vector<Json> readJsonLines(const std::string &path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      rows.push_back(Json::parse(line));
  EXPECT_FALSE(rows.empty()) << path;
  return rows;
}

inline std::vector<int32_t> ids(const Json &array) { return array.get<std::vector<int32_t>>(); }

inline std::string fromHex(const std::string &hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

/// A vocabulary for one thing at a time: five special tokens, the bytes, ASCII and U+2581, and what a test
/// adds.
inline emit::TokenizerSource tinySource(std::vector<std::string> words = {},
                                        std::vector<std::string> merges = {}) {
  emit::TokenizerSource source;
  const auto add = [&](std::string text, TokenType type) {
    source.tokens.push_back(std::move(text));
    source.types.push_back(int32_t(type));
  };
  for (const char *text : {"<pad>", "<eos>", "<bos>", "<turn|>", "<|tool_response>"})
    add(text, TokenType::kControl);
  add("<|\"|>", TokenType::kUserDefined);
  for (int i = 0; i < 256; ++i) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", i);
    add(name, TokenType::kByte);
  }
  for (char c = 0x21; c < 0x7f; ++c)
    add(std::string(1, c), TokenType::kNormal);
  add("\n", TokenType::kNormal);
  add("\xe2\x96\x81", TokenType::kNormal);
  for (std::string &word : words)
    add(std::move(word), TokenType::kNormal);
  source.merges = std::move(merges);
  source.pad = 0;
  source.eos = 1;
  source.bos = 2;
  return source;
}

} // namespace g4::text::test

/// Sets of tokens that generation treats apart. Looked up by text, because ids differ from vocabulary to
/// vocabulary.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace g4::text {

/// One bit per token, 32 to a word, least significant first. Copyable; share freely between threads once
/// built.
class TokenBitmask {
public:
  TokenBitmask(uint32_t tokens, bool value);
  bool test(int32_t id) const {
    return id >= 0 && uint32_t(id) < tokens_ && (words_[size_t(id) / 32] >> (uint32_t(id) % 32) & 1);
  }
  /// Ids out of range are left alone.
  void set(int32_t id, bool value);
  uint32_t size() const { return tokens_; }
  /// ceil(size / 32) words; bits past `size` are 0.
  std::span<const uint32_t> words() const { return words_; }

private:
  uint32_t tokens_;
  std::vector<uint32_t> words_;
};

/// The ids that end a generation: the file's EOS, `<turn|>` and `<|tool_response>`, ascending. `</s>` is
/// ordinary text.
std::vector<int32_t> stopTokens(const Tokenizer &tokenizer);

/// The places of images, audio and video in a prompt, and the marks around them.
std::vector<int32_t> mediaTokens(const Tokenizer &tokenizer);

/// Which tokens may be sampled: all but media tokens, `<unusedN>` and the file's suppressed tokens.
TokenBitmask sampleableTokens(const Tokenizer &tokenizer);

} // namespace g4::text

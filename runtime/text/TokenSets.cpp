#include "runtime/text/TokenSets.h"

#include <algorithm>

namespace g4::text {
namespace {

constexpr std::string_view kMediaTexts[] = {
    "<|image|>", "<|audio|>", "<|video|>",             // soft tokens, replaced by embeddings
    "<|image>",  "<image|>",  "<|audio>",  "<audio|>", // begin and end
};

bool isUnused(std::string_view text) {
  constexpr std::string_view prefix = "<unused";
  if (!text.starts_with(prefix) || !text.ends_with('>'))
    return false;
  const std::string_view digits = text.substr(prefix.size(), text.size() - prefix.size() - 1);
  return !digits.empty() &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<int32_t> present(const Tokenizer &tokenizer, std::span<const std::string_view> texts) {
  std::vector<int32_t> ids;
  for (std::string_view text : texts)
    if (std::optional<int32_t> id = tokenizer.find(text))
      ids.push_back(*id);
  return ids;
}

} // namespace

TokenBitmask::TokenBitmask(uint32_t tokens, bool value)
    : tokens_(tokens), words_((tokens + 31) / 32, value ? ~0u : 0u) {
  if (value && tokens % 32)
    words_.back() = (1u << tokens % 32) - 1;
}

void TokenBitmask::set(int32_t id, bool value) {
  if (id < 0 || uint32_t(id) >= tokens_)
    return;
  const uint32_t bit = 1u << uint32_t(id) % 32;
  uint32_t &word = words_[size_t(id) / 32];
  word = value ? word | bit : word & ~bit;
}

std::vector<int32_t> stopTokens(const Tokenizer &tokenizer) {
  constexpr std::string_view texts[] = {"<turn|>", "<|tool_response>"};
  std::vector<int32_t> ids = present(tokenizer, texts);
  if (tokenizer.eos())
    ids.push_back(*tokenizer.eos());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<int32_t> mediaTokens(const Tokenizer &tokenizer) { return present(tokenizer, kMediaTexts); }

TokenBitmask sampleableTokens(const Tokenizer &tokenizer) {
  TokenBitmask mask(tokenizer.size(), true);
  for (int32_t id : mediaTokens(tokenizer))
    mask.set(id, false);
  for (uint32_t id : tokenizer.suppressed())
    mask.set(int32_t(id), false);
  for (int32_t id = 0; id < int32_t(tokenizer.size()); ++id)
    if (isUnused(tokenizer.tokenText(id)))
      mask.set(id, false);
  return mask;
}

} // namespace g4::text

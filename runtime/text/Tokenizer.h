/// Text to token ids and back, over the tables that the compiler built (TokenizerFormat.h).
///
/// Method: rank-merge BPE over UTF-8 in which a space is U+2581. A text is split at newlines only; a
/// character that is no token, and every byte that is not valid UTF-8, becomes byte tokens, so that no input
/// loses anything.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/TokenizerFormat.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::text {

/// Which token texts are recognised as such inside a text; elsewhere they are ordinary characters.
enum class Match {
  kPlain,   ///< none
  kUser,    ///< user-defined tokens
  kSpecial, ///< user-defined and control tokens
};

/// A view of a blob of tables. Cheap to copy; immutable; share freely between threads.
/// Owner: the caller keeps the blob alive and unchanged as long as any copy is used.
class Tokenizer {
public:
  /// Checks the whole blob, which is not trusted. Nothing is copied but 128 ids.
  /// Errors: kIncompatible (other version), kDataLoss (anything out of range), kInvalidArgument (not at a
  /// multiple of 8 bytes).
  static Result<Tokenizer> create(std::span<const std::byte> blob);

  uint32_t size() const { return uint32_t(types_.size()); }
  bool contains(int32_t id) const { return id >= 0 && uint32_t(id) < size(); }

  /// The text of a token as in the model file (a space is U+2581); empty for an id out of range.
  std::string_view tokenText(int32_t id) const;
  /// kUnused for an id out of range.
  TokenType tokenType(int32_t id) const;
  /// The token with exactly this text; the lowest id if there are several.
  std::optional<int32_t> find(std::string_view text) const;

  std::optional<int32_t> bos() const { return optional(header_->bos); }
  std::optional<int32_t> eos() const { return optional(header_->eos); }
  std::optional<int32_t> unknown() const { return optional(header_->unknown); }
  std::optional<int32_t> pad() const { return optional(header_->pad); }
  std::optional<int32_t> mask() const { return optional(header_->mask); }
  /// The ids the model file says must never be sampled.
  std::span<const uint32_t> suppressed() const { return suppressed_; }

  /// Token ids of `text`, any bytes. Adds no BOS. Time n log n, stack constant.
  /// Special tokens are matched leftmost, then longest.
  /// Errors: kInvalidArgument (1 GiB or more), kResourceExhausted (no memory).
  Result<std::vector<int32_t>> encode(std::string_view text, Match match) const;

  /// `encode`, with exactly one BOS at the front: added if missing, reduced to one if a chat template and a
  /// user both wrote it. A vocabulary without BOS gets none.
  Result<std::vector<int32_t>> encodePrompt(std::string_view text, Match match) const;

  /// Appends the bytes of one token: a space for U+2581, the byte of a byte token. Appends nothing for an id
  /// out of range and, if `skipSpecial`, for control and user-defined tokens. The bytes need not be whole
  /// UTF-8 characters: see Detokenizer.
  void appendBytes(int32_t id, bool skipSpecial, std::string &out) const;
  std::string decodeBytes(std::span<const int32_t> ids, bool skipSpecial) const;

private:
  friend class BytePairEncoder;
  Tokenizer() = default;
  Status bind(std::span<const std::byte> blob);
  Status verifyTokens() const;
  Status verifyMerges() const;
  Status verifyTrie() const;

  static std::optional<int32_t> optional(uint32_t id) {
    return id == kNoToken ? std::nullopt : std::optional(int32_t(id));
  }
  std::string_view rawText(uint32_t id) const {
    return {bytes_ + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }
  uint32_t lookUp(std::string_view text) const;
  const MergeEntry *findMerge(uint32_t left, uint32_t right) const;
  /// Length in bytes of the longest special token at the start of `text`, and its id; 0 if there is none.
  std::pair<size_t, uint32_t> matchSpecial(std::string_view text, Match match) const;

  const TokenizerHeader *header_ = nullptr;
  std::span<const uint32_t> offsets_;
  const char *bytes_ = nullptr;
  size_t byteCount_ = 0;
  std::span<const uint8_t> types_;
  std::span<const uint32_t> tokenBuckets_, tokenIds_, mergeBuckets_;
  std::span<const MergeEntry> merges_;
  std::span<const uint32_t> byteTokens_;
  std::span<const TrieNode> nodes_;
  std::span<const TrieEdge> edges_;
  std::span<const uint32_t> suppressed_;
  std::array<uint32_t, 128>
      ascii_; ///< the token of each ASCII character (of U+2581 for a space), or kNoToken
};

} // namespace g4::text

/// The tokenizer tables of an artifact: one flat little-endian blob that the compiler writes and the runtime
/// uses in place. Both sides include only this header.
///
/// Layout: TokenizerHeader, then the sections it lists, each at a multiple of 8 bytes from the start of the
/// blob. A blob lies at an address that is a multiple of 8. T = tokens, M = merges, S = special tokens.
///
/// | section        | element              | count            | meaning |
/// |----------------|----------------------|------------------|---------|
/// | kTokenOffsets  | uint32               | T + 1            | token t is kTokenBytes[offset[t],
/// offset[t+1]) | | kTokenBytes    | byte                 | offset[T]        | token texts as in the model
/// file (a space is U+2581) | | kTokenTypes    | uint8                | T                | TokenType | |
/// kTokenBuckets  | uint32               | 2^tokenBits + 1  | bucket b holds kTokenIds[bucket[b],
/// bucket[b+1]) | | kTokenIds      | uint32               | texts            | the first id of each text,
/// grouped by hashBytes(text) >> (64 - tokenBits) | | kMergeBuckets  | uint32               | 2^mergeBits + 1
/// | likewise, by hashPair(left, right) | | kMerges        | MergeEntry           | M                |
/// merges, grouped by bucket | | kByteTokens    | uint32               | 256              | id of the token
/// <0xXX> of each byte | | kTrieNodes     | TrieNode             | nodes            | trie over control and
/// user-defined tokens, root first | | kTrieEdges     | TrieEdge             | nodes - 1        | edges
/// grouped by node, bytes ascending | | kSuppress      | uint32               | any              | ids the
/// model file says must never be sampled |
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace g4::text {

inline constexpr char kTokenizerMagic[8] = {'G', '4', 'T', 'O', 'K', 'N', 'Z', 'R'};
inline constexpr uint32_t kTokenizerVersion = 1;
inline constexpr uint32_t kNoToken = 0xffffffffu;

/// Limits that keep a hostile blob from being slow; a real vocabulary is far below them.
inline constexpr uint32_t kMaxTokens = 1u << 24;
inline constexpr uint32_t kMaxBucketEntries = 64;      ///< a good hash gives at most about 10
inline constexpr uint32_t kMaxSpecialTokenBytes = 256; ///< bounds the look-ahead at each byte of a text

/// As in `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

enum TokenizerSection : uint32_t {
  kTokenOffsets,
  kTokenBytes,
  kTokenTypes,
  kTokenBuckets,
  kTokenIds,
  kMergeBuckets,
  kMerges,
  kByteTokens,
  kTrieNodes,
  kTrieEdges,
  kSuppress,
  kSectionCount,
};

struct SectionRange {
  uint64_t offset; ///< bytes from the start of the blob
  uint64_t count;  ///< elements
};

struct TokenizerHeader {
  char magic[8];
  uint32_t version;
  uint32_t headerBytes; ///< sizeof(TokenizerHeader)
  uint64_t totalBytes;
  uint32_t tokenBits; ///< log2 of the number of token buckets, 1 to 31
  uint32_t mergeBits;
  uint32_t bos, eos, unknown, pad, mask; ///< ids, or kNoToken
  uint32_t reserved;                     ///< 0
  /// Bit b % 32 of word b / 32: some merge joins a part that ends in byte b to one that begins with a space.
  /// After any other byte a text may be cut before a run of spaces without changing its tokens.
  uint32_t joinsSpace[8];
  SectionRange sections[kSectionCount];
};

struct MergeEntry {
  uint32_t left, right;
  uint32_t rank; ///< smaller merges first; less than M
  uint32_t result;
};

struct TrieNode {
  uint32_t firstEdge;
  uint32_t edgeCount;
  uint32_t token; ///< the token that ends here, or kNoToken
};

struct TrieEdge {
  uint32_t byte;
  uint32_t child; ///< always greater than the node the edge leaves, so that the trie has no cycle
};

static_assert(std::is_trivially_copyable_v<TokenizerHeader> &&
              sizeof(TokenizerHeader) == 88 + 16 * kSectionCount);
static_assert(sizeof(MergeEntry) == 16 && sizeof(TrieNode) == 12 && sizeof(TrieEdge) == 8);

/// Bytes of one element of a section.
constexpr size_t sectionElementBytes(uint32_t section) {
  switch (section) {
  case kTokenBytes:
  case kTokenTypes:
    return 1;
  case kMerges:
    return sizeof(MergeEntry);
  case kTrieNodes:
    return sizeof(TrieNode);
  case kTrieEdges:
    return sizeof(TrieEdge);
  default:
    return 4;
  }
}

/// The finaliser of SplitMix64: every input bit reaches the high bits, which choose the bucket.
constexpr uint64_t mixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
constexpr uint64_t hashPair(uint32_t left, uint32_t right) {
  return mixBits((uint64_t(left) << 32 | right) + 0x9e3779b97f4a7c15ull);
}
constexpr uint64_t hashBytes(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ull; // FNV-1a
  for (char c : bytes)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3ull;
  return mixBits(hash);
}

} // namespace g4::text

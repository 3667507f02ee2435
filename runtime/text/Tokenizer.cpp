#include "runtime/text/Tokenizer.h"

#include "runtime/text/BytePairEncoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace g4::text {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581
constexpr size_t kMaxTextBytes = size_t(1) << 30;   // symbols are numbered with 32 bits

Status broken(const std::string &what) { return dataLoss("tokenizer tables: " + what); }

template <class T> std::span<const T> section(std::span<const std::byte> blob, const SectionRange &range) {
  return {reinterpret_cast<const T *>(blob.data() + range.offset), size_t(range.count)};
}

/// Bucket bounds start at 0, never fall, grow by at most kMaxBucketEntries, and end at `items`.
bool validBuckets(std::span<const uint32_t> bounds, size_t items) {
  if (bounds.front() != 0 || bounds.back() != items)
    return false;
  for (size_t i = 1; i < bounds.size(); ++i)
    if (bounds[i] < bounds[i - 1] || bounds[i] - bounds[i - 1] > kMaxBucketEntries)
      return false;
  return true;
}

} // namespace

Result<Tokenizer> Tokenizer::create(std::span<const std::byte> blob) {
  Tokenizer tokenizer;
  G4_RETURN_IF_ERROR(tokenizer.bind(blob));
  G4_RETURN_IF_ERROR(tokenizer.verifyTokens());
  G4_RETURN_IF_ERROR(tokenizer.verifyMerges());
  G4_RETURN_IF_ERROR(tokenizer.verifyTrie());
  for (unsigned c = 0; c < 128; ++c) {
    const char text = char(c);
    tokenizer.ascii_[c] = c == ' ' ? tokenizer.lookUp(kSpace) : tokenizer.lookUp({&text, 1});
  }
  return tokenizer;
}

Status Tokenizer::bind(std::span<const std::byte> blob) {
  static_assert(std::endian::native == std::endian::little, "the tables are used in place");
  if (reinterpret_cast<uintptr_t>(blob.data()) % 8 != 0)
    return invalidArgument("tokenizer tables must lie at a multiple of 8 bytes");
  if (blob.size() < sizeof(TokenizerHeader))
    return broken("shorter than their header");
  header_ = reinterpret_cast<const TokenizerHeader *>(blob.data());
  if (std::memcmp(header_->magic, kTokenizerMagic, sizeof header_->magic) != 0)
    return broken("wrong magic");
  if (header_->version != kTokenizerVersion || header_->headerBytes != sizeof(TokenizerHeader))
    return incompatible("tokenizer tables have version " + std::to_string(header_->version) +
                        "; this runtime reads version " + std::to_string(kTokenizerVersion));
  if (header_->totalBytes != blob.size())
    return broken("the header counts " + std::to_string(header_->totalBytes) + " bytes, there are " +
                  std::to_string(blob.size()));
  for (uint32_t i = 0; i < kSectionCount; ++i) {
    const SectionRange &range = header_->sections[i];
    if (range.offset % 8 != 0 || range.offset < sizeof(TokenizerHeader) || range.offset > blob.size() ||
        range.count > (blob.size() - range.offset) / sectionElementBytes(i))
      return broken("section " + std::to_string(i) + " is not inside them");
  }
  const auto &sections = header_->sections;
  offsets_ = section<uint32_t>(blob, sections[kTokenOffsets]);
  bytes_ = section<char>(blob, sections[kTokenBytes]).data();
  byteCount_ = size_t(sections[kTokenBytes].count);
  types_ = section<uint8_t>(blob, sections[kTokenTypes]);
  tokenBuckets_ = section<uint32_t>(blob, sections[kTokenBuckets]);
  tokenIds_ = section<uint32_t>(blob, sections[kTokenIds]);
  mergeBuckets_ = section<uint32_t>(blob, sections[kMergeBuckets]);
  merges_ = section<MergeEntry>(blob, sections[kMerges]);
  byteTokens_ = section<uint32_t>(blob, sections[kByteTokens]);
  nodes_ = section<TrieNode>(blob, sections[kTrieNodes]);
  edges_ = section<TrieEdge>(blob, sections[kTrieEdges]);
  suppressed_ = section<uint32_t>(blob, sections[kSuppress]);
  return {};
}

Status Tokenizer::verifyTokens() const {
  if (types_.empty() || types_.size() > kMaxTokens)
    return broken(std::to_string(types_.size()) + " tokens");
  if (offsets_.size() != types_.size() + 1 || offsets_.front() != 0 || offsets_.back() != byteCount_ ||
      !std::is_sorted(offsets_.begin(), offsets_.end()))
    return broken("token offsets do not partition the token bytes");
  for (uint8_t type : types_)
    if (type < uint8_t(TokenType::kNormal) || type > uint8_t(TokenType::kByte))
      return broken("token type " + std::to_string(type));
  const auto inRange = [&](uint32_t id) { return id < size(); };
  for (uint32_t id : {header_->bos, header_->eos, header_->unknown, header_->pad, header_->mask})
    if (id != kNoToken && !inRange(id))
      return broken("a special token id is out of range");
  if (header_->tokenBits < 1 || header_->tokenBits > 31 ||
      tokenBuckets_.size() != (size_t(1) << header_->tokenBits) + 1 ||
      !validBuckets(tokenBuckets_, tokenIds_.size()) ||
      !std::all_of(tokenIds_.begin(), tokenIds_.end(), inRange))
    return broken("the token index is malformed");
  if (byteTokens_.size() != 256)
    return broken(std::to_string(byteTokens_.size()) + " byte tokens");
  for (uint32_t id : byteTokens_)
    if (!inRange(id) || types_[id] != uint8_t(TokenType::kByte))
      return broken("a byte token is no byte token");
  if (!std::all_of(suppressed_.begin(), suppressed_.end(), inRange))
    return broken("a suppressed token id is out of range");
  return {};
}

Status Tokenizer::verifyMerges() const {
  if (header_->mergeBits < 1 || header_->mergeBits > 31 ||
      mergeBuckets_.size() != (size_t(1) << header_->mergeBits) + 1 ||
      !validBuckets(mergeBuckets_, merges_.size()))
    return broken("the merge index is malformed");
  for (const MergeEntry &merge : merges_)
    if (merge.left >= size() || merge.right >= size() || merge.result >= size() ||
        merge.rank >= merges_.size())
      return broken("a merge names a token or a rank out of range");
  return {};
}

Status Tokenizer::verifyTrie() const {
  if (nodes_.empty() || edges_.size() != nodes_.size() - 1)
    return broken("the special token trie has " + std::to_string(nodes_.size()) + " nodes and " +
                  std::to_string(edges_.size()) + " edges");
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const TrieNode &node = nodes_[i];
    if (node.firstEdge > edges_.size() || node.edgeCount > edges_.size() - node.firstEdge ||
        (node.token != kNoToken && node.token >= size()))
      return broken("node " + std::to_string(i) + " of the special token trie is out of range");
    for (size_t e = node.firstEdge; e < node.firstEdge + node.edgeCount; ++e)
      if (edges_[e].byte > 255 || edges_[e].child <= i || edges_[e].child >= nodes_.size() ||
          (e > node.firstEdge && edges_[e].byte <= edges_[e - 1].byte))
        return broken("edge " + std::to_string(e) + " of the special token trie is malformed");
  }
  if (nodes_[0].token != kNoToken)
    return broken("an empty special token");
  return {};
}

std::string_view Tokenizer::tokenText(int32_t id) const {
  return contains(id) ? rawText(uint32_t(id)) : std::string_view();
}

TokenType Tokenizer::tokenType(int32_t id) const {
  return contains(id) ? TokenType(types_[size_t(id)]) : TokenType::kUnused;
}

uint32_t Tokenizer::lookUp(std::string_view text) const {
  const size_t bucket = hashBytes(text) >> (64 - header_->tokenBits);
  for (uint32_t i = tokenBuckets_[bucket]; i < tokenBuckets_[bucket + 1]; ++i)
    if (rawText(tokenIds_[i]) == text)
      return tokenIds_[i];
  return kNoToken;
}

std::optional<int32_t> Tokenizer::find(std::string_view text) const { return optional(lookUp(text)); }

const MergeEntry *Tokenizer::findMerge(uint32_t left, uint32_t right) const {
  const size_t bucket = hashPair(left, right) >> (64 - header_->mergeBits);
  for (uint32_t i = mergeBuckets_[bucket]; i < mergeBuckets_[bucket + 1]; ++i)
    if (merges_[i].left == left && merges_[i].right == right)
      return &merges_[i];
  return nullptr;
}

std::pair<size_t, uint32_t> Tokenizer::matchSpecial(std::string_view text, Match match) const {
  std::pair<size_t, uint32_t> best{0, kNoToken};
  const TrieNode *node = &nodes_[0];
  for (size_t i = 0; i < text.size() && i < kMaxSpecialTokenBytes; ++i) {
    const auto edges = edges_.subspan(node->firstEdge, node->edgeCount);
    const auto edge = std::lower_bound(edges.begin(), edges.end(), uint8_t(text[i]),
                                       [](const TrieEdge &e, uint32_t byte) { return e.byte < byte; });
    if (edge == edges.end() || edge->byte != uint8_t(text[i]))
      break;
    node = &nodes_[edge->child];
    if (node->token != kNoToken &&
        (match == Match::kSpecial || types_[node->token] == uint8_t(TokenType::kUserDefined)))
      best = {i + 1, node->token};
  }
  return best;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, Match match) const {
  if (text.size() >= kMaxTextBytes)
    return invalidArgument("the text has " + std::to_string(text.size()) +
                           " bytes; less than 1 GiB is supported");
  try {
    std::vector<int32_t> ids;
    BytePairEncoder encoder(*this, text, ids);
    if (match == Match::kPlain) {
      encoder.encode(0, text.size());
      return ids;
    }
    size_t start = 0;
    for (size_t i = 0; i < text.size();) {
      auto [length, id] = matchSpecial(text.substr(i), match);
      if (length == 0) {
        ++i;
        continue;
      }
      encoder.encode(start, i);
      ids.push_back(int32_t(id));
      start = i += length;
    }
    encoder.encode(start, text.size());
    return ids;
  } catch (const std::bad_alloc &) {
    return resourceExhausted("no memory to tokenise " + std::to_string(text.size()) + " bytes");
  }
}

Result<std::vector<int32_t>> Tokenizer::encodePrompt(std::string_view text, Match match) const {
  G4_ASSIGN_OR_RETURN(std::vector<int32_t> ids, encode(text, match));
  if (!bos())
    return ids;
  const auto firstOther = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id != *bos(); });
  ids.erase(ids.begin(), firstOther);
  ids.insert(ids.begin(), *bos());
  return ids;
}

void Tokenizer::appendBytes(int32_t id, bool skipSpecial, std::string &out) const {
  const TokenType type = tokenType(id);
  if (skipSpecial && (type == TokenType::kControl || type == TokenType::kUserDefined))
    return;
  std::string_view text = tokenText(id);
  if (type == TokenType::kByte) {
    // "<0xXX>": the builder and bind() guarantee this form only for the 256 tokens of the byte table.
    const auto hex = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    if (text.size() == 6 && hex(text[3]) >= 0 && hex(text[4]) >= 0)
      out += char(hex(text[3]) * 16 + hex(text[4]));
    return;
  }
  for (size_t at = text.find(kSpace); at != text.npos; at = text.find(kSpace)) {
    out += text.substr(0, at);
    out += ' ';
    text.remove_prefix(at + kSpace.size());
  }
  out += text;
}

std::string Tokenizer::decodeBytes(std::span<const int32_t> ids, bool skipSpecial) const {
  std::string out;
  for (int32_t id : ids)
    appendBytes(id, skipSpecial, out);
  return out;
}

} // namespace g4::text

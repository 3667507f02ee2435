#include "compiler/emit/tokenizer/TokenizerTables.h"

#include "runtime/text/TokenizerFormat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace g4::emit {
namespace {

using text::kNoToken;
using text::MergeEntry;
using text::TokenType;
using text::TrieEdge;
using text::TrieNode;

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581 stands for a space in token texts

/// A token text for a message: quoted, shortened, control characters escaped.
std::string quoted(std::string_view bytes) {
  std::string out = "'";
  for (char c : bytes.substr(0, 40)) {
    char escape[5];
    if (uint8_t(c) < 0x20) {
      std::snprintf(escape, sizeof escape, "\\x%02x", uint8_t(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + (bytes.size() > 40 ? "...'" : "'");
}

/// Groups `count` items by the top `bits` of their hash. `bounds` gets 2^bits + 1 entries, `order` the items.
Status groupByHash(const std::vector<uint64_t> &hashes, unsigned bits, std::vector<uint32_t> &bounds,
                   std::vector<uint32_t> &order) {
  bounds.assign((size_t(1) << bits) + 1, 0);
  for (uint64_t hash : hashes)
    ++bounds[(hash >> (64 - bits)) + 1];
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] > text::kMaxBucketEntries)
      return invalidArgument("the vocabulary hashes badly: a bucket would hold " + std::to_string(bounds[i]) +
                             " entries");
    bounds[i] += bounds[i - 1];
  }
  std::vector<uint32_t> next(bounds.begin(), bounds.end() - 1);
  order.resize(hashes.size());
  for (size_t i = 0; i < hashes.size(); ++i)
    order[next[hashes[i] >> (64 - bits)]++] = uint32_t(i);
  return {};
}

/// About one entry a bucket.
unsigned bucketBits(size_t count) { return std::clamp<unsigned>(std::bit_width(count), 1, 31); }

struct Builder {
  const TokenizerSource &source;
  std::unordered_map<std::string_view, uint32_t> ids; // the first id of each text

  uint32_t find(std::string_view text) const {
    auto it = ids.find(text);
    return it == ids.end() ? kNoToken : it->second;
  }
  TokenType type(size_t id) const { return TokenType(source.types[id]); }

  Status checkTokens();
  Status collectBytes(std::array<uint32_t, 256> &bytes) const;
  Status collectMerges(std::vector<MergeEntry> &merges, uint32_t (&joinsSpace)[8]) const;
  Status buildTrie(std::vector<TrieNode> &nodes, std::vector<TrieEdge> &edges) const;
};

Status Builder::checkTokens() {
  const size_t count = source.tokens.size();
  if (count == 0 || count > text::kMaxTokens)
    return invalidArgument("the vocabulary has " + std::to_string(count) + " tokens; 1 to " +
                           std::to_string(text::kMaxTokens) + " are supported");
  if (source.types.size() != count)
    return invalidArgument("the vocabulary has " + std::to_string(count) + " tokens but " +
                           std::to_string(source.types.size()) + " token types");
  ids.reserve(count * 2);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (source.types[i] < int32_t(TokenType::kNormal) || source.types[i] > int32_t(TokenType::kByte))
      return invalidArgument("token " + std::to_string(i) + " has type " + std::to_string(source.types[i]) +
                             "; types go from 1 to 6");
    bytes += source.tokens[i].size();
    ids.emplace(source.tokens[i], uint32_t(i));
  }
  if (bytes > (size_t(1) << 31))
    return invalidArgument("the token texts take " + std::to_string(bytes) + " bytes; 2 GiB are supported");
  for (auto [id, name] : {std::pair(source.bos, "bos"),
                          {source.eos, "eos"},
                          {source.unknown, "unknown"},
                          {source.pad, "padding"},
                          {source.mask, "mask"}})
    if (id && *id >= count)
      return invalidArgument(std::string("the ") + name + " token id is " + std::to_string(*id) +
                             ", but the vocabulary has " + std::to_string(count) + " tokens");
  for (uint32_t id : source.suppress)
    if (id >= count)
      return invalidArgument("suppressed token id " + std::to_string(id) +
                             " is out of range; the vocabulary has " + std::to_string(count) + " tokens");
  return {};
}

Status Builder::collectBytes(std::array<uint32_t, 256> &bytes) const {
  for (unsigned i = 0; i < 256; ++i) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", i);
    bytes[i] = find(name);
    if (bytes[i] == kNoToken || type(bytes[i]) != TokenType::kByte)
      return invalidArgument(std::string("the vocabulary has no byte token ") + name);
  }
  return {};
}

Status Builder::collectMerges(std::vector<MergeEntry> &merges, uint32_t (&joinsSpace)[8]) const {
  merges.reserve(source.merges.size());
  std::unordered_set<uint64_t> seen;
  seen.reserve(source.merges.size() * 2);
  for (size_t rank = 0; rank < source.merges.size(); ++rank) {
    std::string_view merge = source.merges[rank];
    // The parts hold no ASCII space as a rule; where one does, the cut is the first that names two known
    // tokens.
    MergeEntry entry{kNoToken, kNoToken, uint32_t(merges.size()), kNoToken};
    for (size_t cut = merge.find(' ', 1); cut != merge.npos && entry.result == kNoToken;
         cut = merge.find(' ', cut + 1)) {
      std::string_view left = merge.substr(0, cut), right = merge.substr(cut + 1);
      entry.left = find(left);
      entry.right = find(right);
      if (entry.left == kNoToken || entry.right == kNoToken)
        continue;
      entry.result = find(std::string(left) + std::string(right));
      if (entry.result != kNoToken && right.starts_with(kSpace) && !left.ends_with(kSpace))
        joinsSpace[uint8_t(left.back()) / 32] |= 1u << uint8_t(left.back()) % 32;
    }
    if (entry.result == kNoToken)
      return invalidArgument("merge " + std::to_string(rank) + " " + quoted(merge) +
                             " does not join two tokens into a third");
    if (seen.insert(uint64_t(entry.left) << 32 | entry.right).second) // a repeated pair keeps its best rank
      merges.push_back(entry);
  }
  return {};
}

Status Builder::buildTrie(std::vector<TrieNode> &nodes, std::vector<TrieEdge> &edges) const {
  std::map<std::string_view, uint32_t> words; // sorted, so that each node's words are one range
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    if (type(i) != TokenType::kControl && type(i) != TokenType::kUserDefined)
      continue;
    std::string_view word = source.tokens[i];
    if (word.empty() || word.size() > text::kMaxSpecialTokenBytes)
      return invalidArgument("special token " + std::to_string(i) + " has " + std::to_string(word.size()) +
                             " bytes; 1 to " + std::to_string(text::kMaxSpecialTokenBytes) +
                             " are supported");
    words.emplace(word, uint32_t(i));
  }
  // Breadth first: a node's children are numbered after it, and its edges lie together.
  struct Pending {
    decltype(words)::const_iterator first, last;
    size_t depth;
  };
  std::vector<Pending> pending{{words.cbegin(), words.cend(), 0}};
  for (size_t node = 0; node < pending.size(); ++node) {
    auto [it, last, depth] = pending[node];
    TrieNode out{uint32_t(edges.size()), 0, kNoToken};
    if (it != last && it->first.size() == depth)
      out.token = (it++)->second;
    while (it != last) {
      const uint8_t byte = uint8_t(it->first[depth]);
      auto end = std::find_if(it, last, [&](const auto &word) { return uint8_t(word.first[depth]) != byte; });
      edges.push_back({byte, uint32_t(pending.size())});
      ++out.edgeCount;
      pending.push_back({it, end, depth + 1});
      it = end;
    }
    nodes.push_back(out);
  }
  // string_view sorts char as unsigned, so each node's edges ascend.
  return {};
}

/// Appends sections at multiples of 8 bytes and notes where they are.
class BlobWriter {
public:
  BlobWriter() : bytes_(sizeof(text::TokenizerHeader)) {}
  template <class T> void add(text::TokenizerSection section, const std::vector<T> &items) {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    header.sections[section] = {bytes_.size(), items.size()};
    const auto *data = reinterpret_cast<const std::byte *>(items.data());
    bytes_.insert(bytes_.end(), data, data + items.size() * sizeof(T));
  }
  std::vector<std::byte> finish() && {
    std::memcpy(header.magic, text::kTokenizerMagic, sizeof header.magic);
    header.version = text::kTokenizerVersion;
    header.headerBytes = sizeof header;
    header.totalBytes = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof header);
    return std::move(bytes_);
  }
  text::TokenizerHeader header = {};

private:
  std::vector<std::byte> bytes_;
};

} // namespace

Result<std::vector<std::byte>> buildTokenizerTables(const TokenizerSource &source) {
  static_assert(std::endian::native == std::endian::little,
                "the tables are written in the machine's byte order");
  Builder builder{source, {}};
  G4_RETURN_IF_ERROR(builder.checkTokens());
  std::array<uint32_t, 256> byteTokens;
  G4_RETURN_IF_ERROR(builder.collectBytes(byteTokens));
  std::vector<MergeEntry> merges;
  BlobWriter writer;
  G4_RETURN_IF_ERROR(builder.collectMerges(merges, writer.header.joinsSpace));
  std::vector<TrieNode> nodes;
  std::vector<TrieEdge> edges;
  G4_RETURN_IF_ERROR(builder.buildTrie(nodes, edges));

  std::vector<uint32_t> offsets{0};
  std::vector<char> bytes;
  std::vector<uint8_t> types;
  std::vector<uint32_t> firstIds; // a text that several tokens share finds the first of them
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    const std::string &token = source.tokens[i];
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(uint32_t(bytes.size()));
    types.push_back(uint8_t(source.types[i]));
    if (builder.find(token) != i)
      continue;
    firstIds.push_back(uint32_t(i));
    hashes.push_back(text::hashBytes(token));
  }
  writer.add(text::kTokenOffsets, offsets);
  writer.add(text::kTokenBytes, bytes);
  writer.add(text::kTokenTypes, types);

  std::vector<uint32_t> bounds, order;
  writer.header.tokenBits = bucketBits(hashes.size());
  G4_RETURN_IF_ERROR(groupByHash(hashes, writer.header.tokenBits, bounds, order));
  for (uint32_t &index : order)
    index = firstIds[index];
  writer.add(text::kTokenBuckets, bounds);
  writer.add(text::kTokenIds, order);

  hashes.clear();
  for (const MergeEntry &merge : merges)
    hashes.push_back(text::hashPair(merge.left, merge.right));
  writer.header.mergeBits = bucketBits(hashes.size());
  G4_RETURN_IF_ERROR(groupByHash(hashes, writer.header.mergeBits, bounds, order));
  std::vector<MergeEntry> grouped;
  grouped.reserve(merges.size());
  for (uint32_t index : order)
    grouped.push_back(merges[index]);
  writer.add(text::kMergeBuckets, bounds);
  writer.add(text::kMerges, grouped);

  writer.add(text::kByteTokens, std::vector<uint32_t>(byteTokens.begin(), byteTokens.end()));
  writer.add(text::kTrieNodes, nodes);
  writer.add(text::kTrieEdges, edges);
  writer.add(text::kSuppress, source.suppress);
  writer.header.bos = source.bos.value_or(kNoToken);
  writer.header.eos = source.eos.value_or(kNoToken);
  writer.header.unknown = source.unknown.value_or(kNoToken);
  writer.header.pad = source.pad.value_or(kNoToken);
  writer.header.mask = source.mask.value_or(kNoToken);
  return std::move(writer).finish();
}

} // namespace g4::emit

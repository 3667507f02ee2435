#include "runtime/text/BytePairEncoder.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <functional>

namespace g4::text {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581
constexpr uint32_t kNoRank = 0xffffffffu;
constexpr uint32_t kNoSymbol = 0xffffffffu;
constexpr size_t kShortWord = 32;      // symbols; below this, scanning for the best pair beats a heap
constexpr size_t kCacheEntries = 8192; // 256 KiB: stays in the second-level cache
constexpr size_t kMaxCachedBytes = 64;

/// Bytes of a space at the start of `text` (either spelling), or 0.
size_t spaceLength(std::string_view text) {
  return text.starts_with(' ') ? 1 : text.starts_with(kSpace) ? kSpace.size() : 0;
}

} // namespace

void PairQueue::push(uint32_t rank, uint32_t pair) {
  if (bucketOfRank_.empty())
    bucketOfRank_.resize(ranks_);
  uint32_t &index = bucketOfRank_[rank];
  if (index == 0) {
    buckets_.emplace_back();
    index = uint32_t(buckets_.size());
  }
  Bucket &bucket = buckets_[index - 1];
  if (bucket.pairs.empty()) {
    waiting_.push_back(rank);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }
  if (!bucket.heap && !bucket.pairs.empty() && pair < bucket.pairs.back()) {
    bucket.pairs.erase(bucket.pairs.begin(), bucket.pairs.begin() + ptrdiff_t(bucket.head));
    bucket.head = 0;
    bucket.heap = true; // ascending order is a valid heap
  }
  bucket.pairs.push_back(pair);
  if (bucket.heap)
    std::push_heap(bucket.pairs.begin(), bucket.pairs.end(), std::greater<>());
}

bool PairQueue::pop(uint32_t &rank, uint32_t &pair) {
  if (waiting_.empty())
    return false;
  rank = waiting_.front();
  Bucket &bucket = buckets_[bucketOfRank_[rank] - 1];
  if (bucket.heap) {
    std::pop_heap(bucket.pairs.begin(), bucket.pairs.end(), std::greater<>());
    pair = bucket.pairs.back();
    bucket.pairs.pop_back();
  } else {
    pair = bucket.pairs[bucket.head++];
  }
  if (bucket.head == bucket.pairs.size()) {
    bucket.pairs.clear();
    bucket.head = 0;
    bucket.heap = false;
    std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    waiting_.pop_back();
  }
  return true;
}

void BytePairEncoder::encode(size_t begin, size_t end) {
  const auto cutAfter = [&](uint8_t byte) {
    return !(tokenizer_.header_->joinsSpace[byte / 32] >> byte % 32 & 1);
  };
  while (begin < end) {
    const bool newlines = text_[begin] == '\n';
    size_t stop = begin;
    bool afterSpace = true; // leading spaces belong to the first word
    while (stop < end && (text_[stop] == '\n') == newlines) {
      const size_t space = newlines ? 0 : spaceLength(text_.substr(stop, end - stop));
      if (space && !afterSpace && cutAfter(uint8_t(text_[stop - 1])))
        break;
      afterSpace = space != 0;
      stop += space ? space : 1;
    }
    encodeWord(begin, stop);
    begin = stop;
  }
}

void BytePairEncoder::encodeWord(size_t begin, size_t end) {
  const std::string_view word = text_.substr(begin, end - begin);
  Seen *seen = nullptr;
  uint64_t hash = 0;
  if (word.size() <= kMaxCachedBytes) {
    if (cache_.empty())
      cache_.resize(kCacheEntries);
    hash = hashBytes(word);
    seen = &cache_[hash % kCacheEntries];
    if (seen->hash == hash && text_.substr(seen->begin, seen->length) == word) {
      for (uint32_t i = 0; i < seen->idCount; ++i) {
        const int32_t id = ids_[seen->firstId + i]; // a copy: the list may move while it grows
        ids_.push_back(id);
      }
      return;
    }
  }
  const size_t firstId = ids_.size();
  readSymbols(word);
  if (symbols_.size() <= kShortWord)
    mergeShort();
  else
    mergeLong();
  if (seen)
    *seen = {hash, uint32_t(begin), uint32_t(word.size()), uint32_t(firstId),
             uint32_t(ids_.size() - firstId)};
}

void BytePairEncoder::readSymbols(std::string_view word) {
  symbols_.clear();
  for (size_t i = 0; i < word.size();) {
    const uint8_t lead = uint8_t(word[i]);
    size_t length = 1;
    uint32_t id = kNoToken;
    if (lead < 0x80) {
      id = tokenizer_.ascii_[lead];
    } else if (Utf8Prefix prefix = readUtf8(word.substr(i)); prefix.complete) {
      length = prefix.bytes;
      id = tokenizer_.lookUp(word.substr(i, length));
    }
    if (id != kNoToken)
      symbols_.push_back(id);
    else
      for (size_t byte = i; byte < i + length; ++byte)
        symbols_.push_back(tokenizer_.byteTokens_[uint8_t(word[byte])]);
    i += length;
  }
}

void BytePairEncoder::mergeShort() {
  const size_t count = symbols_.size();
  uint32_t ranks[kShortWord], results[kShortWord];
  const auto rank = [&](size_t i) {
    const MergeEntry *merge = tokenizer_.findMerge(symbols_[i], symbols_[i + 1]);
    ranks[i] = merge ? merge->rank : kNoRank;
    results[i] = merge ? merge->result : kNoToken;
  };
  for (size_t i = 0; i + 1 < count; ++i)
    rank(i);
  size_t left = count; // symbols that remain
  while (left > 1) {
    const size_t best = size_t(std::min_element(ranks, ranks + left - 1) - ranks);
    if (ranks[best] == kNoRank)
      break;
    symbols_[best] = results[best];
    symbols_.erase(symbols_.begin() + ptrdiff_t(best) + 1);
    std::copy(ranks + best + 1, ranks + left - 1, ranks + best);
    std::copy(results + best + 1, results + left - 1, results + best);
    --left;
    if (best > 0)
      rank(best - 1);
    if (best + 1 < left)
      rank(best);
  }
  ids_.insert(ids_.end(), symbols_.begin(), symbols_.end());
}

void BytePairEncoder::rankPair(uint32_t i) {
  const MergeEntry *merge =
      next_[i] == kNoSymbol ? nullptr : tokenizer_.findMerge(symbols_[i], symbols_[next_[i]]);
  rank_[i] = merge ? merge->rank : kNoRank;
  result_[i] = merge ? merge->result : kNoToken;
}

void BytePairEncoder::mergeLong() {
  const uint32_t count = uint32_t(symbols_.size());
  next_.resize(count);
  previous_.resize(count);
  rank_.resize(count);
  result_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    next_[i] = i + 1 < count ? i + 1 : kNoSymbol;
    previous_[i] = i > 0 ? i - 1 : kNoSymbol;
  }
  const auto queue = [&](uint32_t i) {
    rankPair(i);
    if (rank_[i] != kNoRank)
      queue_.push(rank_[i], i);
  };
  for (uint32_t i = 0; i < count; ++i)
    queue(i);
  uint32_t rank, left;
  while (queue_.pop(rank, left)) {
    if (rank_[left] != rank) // the pair has changed since it was queued: it has another rank now, or none
      continue;
    const uint32_t right = next_[left];
    symbols_[left] = result_[left];
    rank_[right] = kNoRank;
    next_[left] = next_[right];
    if (next_[left] != kNoSymbol)
      previous_[next_[left]] = left;
    queue(left);
    if (previous_[left] != kNoSymbol)
      queue(previous_[left]);
  }
  for (uint32_t i = 0; i != kNoSymbol; i = next_[i])
    ids_.push_back(int32_t(symbols_[i]));
}

} // namespace g4::text

/// What a PrefixTree and the sequences on its cache should be, in the plainest form: a map from every prefix
/// of whole pages to its pages, searched from end to end. Rules are written anew here, not taken from the
/// code.
#pragma once

#include "runtime/kv/PrefixTree.h"
#include "test/unit/kv/WrittenCache.h"

#include <algorithm>
#include <map>
#include <optional>

namespace g4::kv {

class PrefixModel {
public:
  PrefixModel(const WrittenCache &world, uint32_t window, uint64_t cap)
      : world_(world), window_(window), cap_(cap) {}

  struct Sequence {
    Key key;               ///< of what it holds and will hold
    uint32_t length = 0;   ///< positions
    uint32_t firstSliding; ///< sliding pages before it are gone
  };
  std::map<SeqId, Sequence> sequences;
  PrefixStats stats;

  /// Tokens and branch that open(key) should give.
  std::pair<uint32_t, uint32_t> open(const Key &key);
  /// The sequence of that open.
  void opened(SeqId seq, const Key &key, uint32_t tokens) {
    sequences[seq] = {key, tokens, tokens ? pageSeenFrom(tokens) : 0};
  }
  void advance(SeqId seq, uint32_t length);
  bool canTruncate(SeqId seq, uint32_t length) const;
  void truncate(SeqId seq, uint32_t length);
  /// What insert should evict, and, after it, what it should have added.
  void beforeInsert(SeqId seq);
  void afterInsert(SeqId seq);
  /// Whether there should be room, and what is evicted for it. Call before.
  bool makeRoom(PageCounts wanted);

  /// What is wrong with the cache or the tree; empty if nothing is.
  std::string check(const PrefixStats &have) const;

private:
  struct Pages {
    PageId global = kNoPage, sliding = kNoPage;
    uint64_t globalUsed = 0, slidingUsed = 0, made = 0;
  };
  using Entry = std::map<Key, Pages>::iterator;

  static Key prefix(const Key &key, uint32_t pages) { return Key(key.begin(), key.begin() + pages * kPage); }
  /// The page of the first key that a query at `position` sees.
  uint32_t pageSeenFrom(uint32_t position) const {
    return (position < window_ ? 0 : position - (window_ - 1)) / kPage;
  }
  bool isLeaf(Entry entry) const {
    const auto next = std::next(entry);
    return next == tree_.end() || next->first.size() <= entry->first.size() ||
           prefix(next->first, uint32_t(entry->first.size() / kPage)) != entry->first;
  }
  uint32_t references(PageClass pageClass, PageId page) const;
  std::optional<Entry> oldestSliding(bool idle);
  std::optional<Entry> oldestLeaf(bool idle);
  void evictSliding(Entry entry);
  void evictLeaf(Entry entry);

  const WrittenCache &world_;
  const uint32_t window_;
  const uint64_t cap_;
  std::map<Key, Pages> tree_;
  uint64_t now_ = 0, made_ = 0;
  bool taken_ = false; // the last insert fits
};

} // namespace g4::kv

/// Remembers the keys and values of what sequences began with, for sequences that will begin alike.
#pragma once

#include "runtime/kv/KvCache.h"

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

namespace g4::kv {

/// What a PrefixTree did and holds. Tokens are positions.
struct PrefixStats {
  uint64_t lookups = 0, lookedUpTokens = 0;
  uint64_t hits = 0, hitTokens = 0; ///< lookups that found at least a page; positions that they found
  uint64_t refusals = 0;            ///< inserts that would not fit under the cap
  uint64_t bytes = 0;               ///< of the pages below
  PageCounts pages;                 ///< held now
  uint64_t evictedSliding = 0, evictedGlobal = 0;
};

/// A radix tree whose nodes are pages: a node stands for geometry().pageTokens positions after those of its
/// parent, and owns their global page and maybe their sliding page. A key has one element for each position:
/// a token id, or what stands for other input there. Equal keys must mean equal keys and values, bit for bit.
///
/// A hit of k pages needs the k global pages from the root on and the sliding pages of the window before
/// position k * pageTokens. Where hits are possible follows from the sliding pages that are left: a sequence
/// that is inserted holds those of its last two boundaries (Geometry::firstPageKept), so these are few. To
/// make another one, insert when the sequence is there.
///
/// Evicts what was used longest ago: sliding pages anywhere, global pages at leaves, with the sliding page of
/// the same positions. Time: O(pages of the key) for open and insert, each page O(log n) at worst; evictions
/// O(log n) each and a scan over what running sequences share. A model without global layers is not cached
/// (Gemma 4 has them). Threads: scheduler thread only, and not while a step runs. One tree for a cache,
/// destroyed before it.
class PrefixTree {
public:
  /// Never owns pages of more than `mostBytes` together.
  PrefixTree(KvCache &cache, uint64_t mostBytes);
  ~PrefixTree();
  PrefixTree(const PrefixTree &) = delete;
  PrefixTree &operator=(const PrefixTree &) = delete;

  struct Opened {
    SeqId seq;       ///< the caller closes it
    uint32_t tokens; ///< positions of the key that `seq` holds; less than the key, whole pages
    /// Positions, whole pages, that the tree has global pages of; those after `tokens` lack their window.
    /// Other sequences went on differently here or ended: a prompt that is inserted when it has come to this
    /// point makes it a hit for those that follow.
    uint32_t branch;
  };
  /// Opens a sequence on the longest hit.
  Opened open(std::span<const uint64_t> key);

  /// Takes the whole pages of `seq` into the tree, and the sliding pages that it still holds. What the tree
  /// has already stays, and `seq` goes on with the tree's page in place of its own. All or nothing: a
  /// sequence that exceeds the cap alone is not taken (ok; counted). Errors: kInvalidArgument (unknown
  /// sequence; a key shorter than the sequence).
  Status insert(std::span<const uint64_t> key, SeqId seq);

  /// Evicts until the pools have `wanted` free pages; only pages that nobody else holds, as others give no
  /// room. False when there are not enough of them: nothing was evicted.
  bool makeRoom(const PageCounts &wanted);

  const PrefixStats &stats() const { return stats_; }

private:
  struct Node;
  struct ByKey { // among children of one node
    using is_transparent = void;
    bool operator()(const std::unique_ptr<Node> &a, const std::unique_ptr<Node> &b) const;
    bool operator()(const std::unique_ptr<Node> &a, std::span<const uint64_t> b) const;
    bool operator()(std::span<const uint64_t> a, const std::unique_ptr<Node> &b) const;
  };
  struct ByGlobalUse { // oldest first, and the deeper of two of the same time
    bool operator()(const Node *a, const Node *b) const;
  };
  struct BySlidingUse { // oldest first, and the shallower of two of the same time: windows end at their
                        // deepest page
    bool operator()(const Node *a, const Node *b) const;
  };

  std::vector<Node *> walk(std::span<const uint64_t> key, size_t pages) const;
  std::span<const uint64_t> pageKey(std::span<const uint64_t> key, size_t page) const;
  void touchGlobal(Node &node);
  void touchSliding(Node &node);
  Node &addChild(Node &parent, std::span<const uint64_t> key, PageId global);
  void addSliding(Node &node, PageId page);
  void evictSliding(Node &node);
  void evictLeaf(Node &leaf);
  void evictOldest();
  void count(PageClass pageClass, bool added);

  KvCache &cache_;
  const uint64_t mostBytes_;
  std::unique_ptr<Node> root_;              // no page
  std::set<Node *, ByGlobalUse> leaves_;    // nodes without children, but the root
  std::set<Node *, BySlidingUse> slidings_; // nodes with a sliding page
  uint64_t now_ = 0;                        // counts uses
  uint64_t lastId_ = 0;
  PrefixStats stats_;
};

} // namespace g4::kv

#include "runtime/kv/PrefixTree.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace g4::kv {

struct PrefixTree::Node {
  Node *parent = nullptr;
  uint32_t depth = 0;             // 1 for the first page of a key
  uint64_t id = 0;                // tells nodes of one age and depth apart
  std::vector<uint64_t> key = {}; // [pageTokens]
  PageId global = kNoPage, sliding = kNoPage;
  uint64_t globalUsed = 0, slidingUsed = 0; // a parent's global page is used whenever its child's is
  std::set<std::unique_ptr<Node>, ByKey> children = {};
};

bool PrefixTree::ByKey::operator()(const std::unique_ptr<Node> &a, const std::unique_ptr<Node> &b) const {
  return a->key < b->key;
}
bool PrefixTree::ByKey::operator()(const std::unique_ptr<Node> &a, std::span<const uint64_t> b) const {
  return std::ranges::lexicographical_compare(a->key, b);
}
bool PrefixTree::ByKey::operator()(std::span<const uint64_t> a, const std::unique_ptr<Node> &b) const {
  return std::ranges::lexicographical_compare(a, b->key);
}
bool PrefixTree::ByGlobalUse::operator()(const Node *a, const Node *b) const {
  return std::tie(a->globalUsed, b->depth, a->id) < std::tie(b->globalUsed, a->depth, b->id);
}
bool PrefixTree::BySlidingUse::operator()(const Node *a, const Node *b) const {
  return std::tie(a->slidingUsed, a->depth, a->id) < std::tie(b->slidingUsed, b->depth, b->id);
}

PrefixTree::PrefixTree(KvCache &cache, uint64_t mostBytes)
    : cache_(cache), mostBytes_(mostBytes), root_(new Node) {}

// Leaf by leaf: a node's destructor would go as deep as the tree.
PrefixTree::~PrefixTree() {
  while (!leaves_.empty())
    evictLeaf(**leaves_.begin());
}

PrefixTree::Opened PrefixTree::open(std::span<const uint64_t> key) {
  const Geometry &geometry = cache_.geometry();
  const bool windowed = cache_.pageBytes(PageClass::kSliding) != 0;
  ++stats_.lookups;
  stats_.lookedUpTokens += key.size();
  ++now_;

  // The last position of a prompt is always computed: its logits are wanted.
  const std::vector<Node *> path = walk(key, key.empty() ? 0 : (key.size() - 1) / geometry.pageTokens);
  uint32_t pages = 0, windowPages = 0; // the latter: of consecutive nodes with a sliding page
  for (uint32_t k = 1; k <= path.size(); ++k) {
    windowPages = path[k - 1]->sliding == kNoPage ? 0 : windowPages + 1;
    if (!windowed || windowPages >= k - geometry.firstPageOfWindow(uint64_t(k) * geometry.pageTokens))
      pages = k;
  }
  const auto branch = uint32_t(path.size()) * geometry.pageTokens;
  if (pages == 0)
    return {cache_.open(), 0, branch};

  const uint32_t first = geometry.firstPageOfWindow(uint64_t(pages) * geometry.pageTokens);
  std::vector<PageId> sliding(pages, kNoPage), global(pages);
  for (uint32_t k = 0; k < pages; ++k) {
    touchGlobal(*path[k]);
    global[k] = path[k]->global;
    if (windowed && k >= first) {
      touchSliding(*path[k]);
      sliding[k] = path[k]->sliding;
    }
  }
  const uint32_t tokens = pages * geometry.pageTokens;
  ++stats_.hits;
  stats_.hitTokens += tokens;
  return {cache_.openShared(sliding, global), tokens, branch};
}

Status PrefixTree::insert(std::span<const uint64_t> key, SeqId seq) {
  G4_ASSIGN_OR_RETURN(const uint32_t length, cache_.length(seq));
  if (key.size() < length)
    return invalidArgument("a key of " + std::to_string(key.size()) + " elements for a sequence of " +
                           std::to_string(length) + " positions");
  const uint32_t pages = length / cache_.geometry().pageTokens;
  const uint64_t globalBytes = cache_.pageBytes(PageClass::kGlobal);
  const uint64_t slidingBytes = cache_.pageBytes(PageClass::kSliding);
  if (globalBytes == 0)
    return {};

  // What the tree must own at the end, and what it does not own yet.
  const std::vector<Node *> path = walk(key, pages);
  const std::span<const PageId> sliding = cache_.blocks(seq, PageClass::kSliding);
  const std::span<const PageId> global = cache_.blocks(seq, PageClass::kGlobal);
  uint64_t own = 0, added = 0;
  for (uint32_t k = 0; k < pages; ++k) {
    const bool known = k < path.size();
    own += globalBytes + (sliding[k] == kNoPage ? 0 : slidingBytes);
    added += known ? 0 : globalBytes;
    added += sliding[k] == kNoPage || (known && path[k]->sliding != kNoPage) ? 0 : slidingBytes;
  }
  if (own > mostBytes_) {
    ++stats_.refusals;
    return {};
  }

  // Everything else is older than what is used now, so evictions come to an end before they reach that.
  ++now_;
  for (uint32_t k = 0; k < path.size(); ++k) {
    touchGlobal(*path[k]);
    if (sliding[k] != kNoPage && path[k]->sliding != kNoPage)
      touchSliding(*path[k]);
  }
  while (stats_.bytes + added > mostBytes_)
    evictOldest();

  Node *node = root_.get();
  for (uint32_t k = 0; k < pages; ++k) {
    if (k >= path.size()) {
      node = &addChild(*node, pageKey(key, k), global[k]);
    } else {
      node = path[k];
      if (node->global != global[k])
        G4_RETURN_IF_ERROR(cache_.share(seq, PageClass::kGlobal, k, node->global));
    }
    if (sliding[k] == kNoPage)
      continue;
    if (node->sliding == kNoPage)
      addSliding(*node, sliding[k]);
    else if (node->sliding != sliding[k])
      G4_RETURN_IF_ERROR(cache_.share(seq, PageClass::kSliding, k, node->sliding));
  }
  return {};
}

bool PrefixTree::makeRoom(const PageCounts &wanted) {
  for (PageClass pageClass : kClasses)
    if (cache_.pageBytes(pageClass) &&
        uint64_t(cache_.pool(pageClass).free()) + cache_.pool(pageClass).idle() < wanted[pageClass])
      return false;
  const auto lacks = [&](PageClass pageClass) {
    return cache_.pageBytes(pageClass) && cache_.pool(pageClass).free() < wanted[pageClass];
  };
  const auto isIdle = [&](PageClass pageClass, PageId page) {
    return cache_.pool(pageClass).references(page) == 1;
  };
  // A sequence that shares a node's page shares those of its ancestors, so idle pages are reached by way of
  // idle leaves. Only what a sequence inserted from forked pages may stand below pages that are idle.
  while (lacks(PageClass::kGlobal)) {
    auto leaf = std::ranges::find_if(
        leaves_, [&](const Node *node) { return isIdle(PageClass::kGlobal, node->global); });
    evictLeaf(leaf == leaves_.end() ? **leaves_.begin() : **leaf);
  }
  for (auto it = slidings_.begin(); lacks(PageClass::kSliding);) {
    Node &node = **it++;
    if (isIdle(PageClass::kSliding, node.sliding))
      evictSliding(node);
  }
  return true;
}

/// The nodes of the first `pages` pages of `key`, as far as there are any.
std::vector<PrefixTree::Node *> PrefixTree::walk(std::span<const uint64_t> key, size_t pages) const {
  std::vector<Node *> path;
  for (const Node *node = root_.get(); path.size() < pages; node = path.back()) {
    const auto child = node->children.find(pageKey(key, path.size()));
    if (child == node->children.end())
      break;
    path.push_back(child->get());
  }
  return path;
}

std::span<const uint64_t> PrefixTree::pageKey(std::span<const uint64_t> key, size_t page) const {
  const size_t tokens = cache_.geometry().pageTokens;
  return key.subspan(page * tokens, tokens);
}

void PrefixTree::touchGlobal(Node &node) {
  const bool leaf = leaves_.erase(&node) != 0;
  node.globalUsed = now_;
  if (leaf)
    leaves_.insert(&node);
}

void PrefixTree::touchSliding(Node &node) {
  slidings_.erase(&node);
  node.slidingUsed = now_;
  slidings_.insert(&node);
}

PrefixTree::Node &PrefixTree::addChild(Node &parent, std::span<const uint64_t> key, PageId global) {
  leaves_.erase(&parent);
  std::unique_ptr<Node> child(
      new Node{&parent, parent.depth + 1, ++lastId_, {key.begin(), key.end()}, global});
  child->globalUsed = now_;
  Node &node = **parent.children.insert(std::move(child)).first;
  leaves_.insert(&node);
  cache_.retainCached(PageClass::kGlobal, global);
  count(PageClass::kGlobal, true);
  return node;
}

void PrefixTree::addSliding(Node &node, PageId page) {
  cache_.retainCached(PageClass::kSliding, page);
  count(PageClass::kSliding, true);
  node.sliding = page;
  node.slidingUsed = now_;
  slidings_.insert(&node);
}

void PrefixTree::evictSliding(Node &node) {
  slidings_.erase(&node);
  cache_.releaseCached(PageClass::kSliding, node.sliding);
  node.sliding = kNoPage;
  count(PageClass::kSliding, false);
}

void PrefixTree::evictLeaf(Node &leaf) {
  if (leaf.sliding != kNoPage)
    evictSliding(leaf);
  leaves_.erase(&leaf);
  cache_.releaseCached(PageClass::kGlobal, leaf.global);
  count(PageClass::kGlobal, false);
  Node &parent = *leaf.parent;
  parent.children.erase(parent.children.find(std::span<const uint64_t>(leaf.key)));
  if (parent.children.empty() && &parent != root_.get())
    leaves_.insert(&parent);
}

/// Of the two oldest; of equally old ones the sliding page, without which a node still has children.
void PrefixTree::evictOldest() {
  if (!slidings_.empty() &&
      (leaves_.empty() || (*slidings_.begin())->slidingUsed <= (*leaves_.begin())->globalUsed))
    evictSliding(**slidings_.begin());
  else
    evictLeaf(**leaves_.begin());
}

void PrefixTree::count(PageClass pageClass, bool added) {
  const uint64_t bytes = cache_.pageBytes(pageClass);
  stats_.bytes += added ? bytes : -bytes;
  stats_.pages[pageClass] += added ? 1 : -1;
  if (!added)
    ++(pageClass == PageClass::kSliding ? stats_.evictedSliding : stats_.evictedGlobal);
}

} // namespace g4::kv

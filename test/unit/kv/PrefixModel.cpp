#include "test/unit/kv/PrefixModel.h"

namespace g4::kv {

std::pair<uint32_t, uint32_t> PrefixModel::open(const Key &key) {
  ++stats.lookups;
  stats.lookedUpTokens += key.size();
  ++now_;
  uint32_t branch = 0;
  while ((branch + 1) * kPage < key.size() && tree_.contains(prefix(key, branch + 1)))
    ++branch;
  for (uint32_t pages = branch; pages > 0; --pages) {
    bool valid = true;
    for (uint32_t page = pageSeenFrom(pages * kPage); page < pages; ++page)
      valid &= tree_.at(prefix(key, page + 1)).sliding != kNoPage;
    if (!valid)
      continue;
    for (uint32_t page = 0; page < pages; ++page) {
      Pages &used = tree_.at(prefix(key, page + 1));
      used.globalUsed = now_;
      if (page >= pageSeenFrom(pages * kPage))
        used.slidingUsed = now_;
    }
    ++stats.hits;
    stats.hitTokens += pages * kPage;
    return {pages * kPage, branch * kPage};
  }
  return {0, branch * kPage};
}

void PrefixModel::advance(SeqId seq, uint32_t length) {
  Sequence &sequence = sequences.at(seq);
  sequence.length = length;
  const uint32_t lastWhole = length ? (length - 1) / kPage * kPage : 0;
  sequence.firstSliding =
      std::max(sequence.firstSliding, pageSeenFrom(lastWhole >= kPage ? lastWhole - kPage : 0));
}

bool PrefixModel::canTruncate(SeqId seq, uint32_t length) const {
  const Sequence &sequence = sequences.at(seq);
  return length == 0 || length == sequence.length ||
         (length < sequence.length && pageSeenFrom(length) >= sequence.firstSliding);
}

void PrefixModel::truncate(SeqId seq, uint32_t length) {
  Sequence &sequence = sequences.at(seq);
  sequence.length = length;
  sequence.firstSliding = std::min(sequence.firstSliding, (length + kPage - 1) / kPage);
}

void PrefixModel::beforeInsert(SeqId seq) {
  const Sequence &sequence = sequences.at(seq);
  const uint32_t pages = sequence.length / kPage;
  const uint32_t sliding = pages - std::min(pages, sequence.firstSliding);
  taken_ = pages * kGlobalBytes + sliding * kSlidingBytes <= cap_;
  stats.refusals += !taken_;
  if (!taken_)
    return;
  ++now_;
  uint64_t added = 0;
  for (uint32_t page = 0; page < pages; ++page) {
    const bool holds = page >= sequence.firstSliding;
    const auto known = tree_.find(prefix(sequence.key, page + 1));
    if (known == tree_.end()) {
      added += kGlobalBytes + (holds ? kSlidingBytes : 0);
      continue;
    }
    known->second.globalUsed = now_;
    if (holds && known->second.sliding != kNoPage)
      known->second.slidingUsed = now_;
    else if (holds)
      added += kSlidingBytes;
  }
  while (stats.bytes + added > cap_) {
    const auto sliding = oldestSliding(false), leaf = oldestLeaf(false);
    if (sliding && (!leaf || (*sliding)->second.slidingUsed <= (*leaf)->second.globalUsed))
      evictSliding(*sliding);
    else
      evictLeaf(*leaf);
  }
}

void PrefixModel::afterInsert(SeqId seq) {
  const Sequence &sequence = sequences.at(seq);
  if (!taken_)
    return;
  for (uint32_t page = 0; page < sequence.length / kPage; ++page) {
    const auto [entry, isNew] = tree_.try_emplace(prefix(sequence.key, page + 1));
    Pages &pages = entry->second;
    if (isNew) {
      pages = {world_.cache->blocks(seq, PageClass::kGlobal)[page], kNoPage, now_, 0, ++made_};
      stats.pages.global += 1;
      stats.bytes += kGlobalBytes;
    }
    if (page >= sequence.firstSliding && pages.sliding == kNoPage) {
      pages.sliding = world_.cache->blocks(seq, PageClass::kSliding)[page];
      pages.slidingUsed = now_;
      stats.pages.sliding += 1;
      stats.bytes += kSlidingBytes;
    }
  }
}

bool PrefixModel::makeRoom(PageCounts wanted) {
  PageCounts idle, free;
  for (const auto &[key, pages] : tree_) {
    idle.global += references(PageClass::kGlobal, pages.global) == 1;
    idle.sliding += pages.sliding != kNoPage && references(PageClass::kSliding, pages.sliding) == 1;
  }
  for (PageClass pageClass : kClasses)
    for (uint32_t page = 0; page < world_.cache->pool(pageClass).capacity(); ++page)
      free[pageClass] += references(pageClass, PageId(page)) == 0;
  if (free.global + idle.global < wanted.global || free.sliding + idle.sliding < wanted.sliding)
    return false;
  const auto evict = [&](Entry entry, bool leaf) {
    free.sliding +=
        entry->second.sliding != kNoPage && references(PageClass::kSliding, entry->second.sliding) == 1;
    free.global += leaf && references(PageClass::kGlobal, entry->second.global) == 1;
    leaf ? evictLeaf(entry) : evictSliding(entry);
  };
  while (free.global < wanted.global) {
    const auto leaf = oldestLeaf(true);
    evict(leaf ? *leaf : *oldestLeaf(false), true);
  }
  while (free.sliding < wanted.sliding)
    evict(*oldestSliding(true), false);
  return true;
}

std::string PrefixModel::check(const PrefixStats &have) const {
  const KvCache &cache = *world_.cache;
  if (have.bytes > cap_)
    return "the cap is exceeded";
  if (have.bytes != stats.bytes || have.pages != stats.pages || have.hits != stats.hits ||
      have.lookups != stats.lookups || have.hitTokens != stats.hitTokens || have.refusals != stats.refusals ||
      have.lookedUpTokens != stats.lookedUpTokens || have.evictedGlobal != stats.evictedGlobal ||
      have.evictedSliding != stats.evictedSliding)
    return "statistics differ: " + std::to_string(have.bytes) + " bytes for " + std::to_string(stats.bytes);
  for (PageClass pageClass : kClasses) {
    uint32_t used = 0, idle = 0;
    std::vector<bool> cached(cache.pool(pageClass).capacity());
    for (const auto &[key, pages] : tree_)
      if (const PageId page = pageClass == PageClass::kGlobal ? pages.global : pages.sliding; page != kNoPage)
        cached[size_t(page)] = true;
    for (uint32_t page = 0; page < cached.size(); ++page) {
      const uint32_t want = references(pageClass, PageId(page));
      if (cache.pool(pageClass).references(PageId(page)) != want)
        return "page " + std::to_string(page) + " has " +
               std::to_string(cache.pool(pageClass).references(PageId(page))) + " references instead of " +
               std::to_string(want);
      used += want != 0;
      idle += want == 1 && cached[page];
    }
    if (cache.pool(pageClass).used() != used || cache.pool(pageClass).idle() != idle)
      return "the pool counts its pages wrongly";
  }
  for (const auto &[seq, sequence] : sequences) {
    const auto length = cache.length(seq);
    if (!length.ok() || *length != sequence.length)
      return "a sequence is of another length";
    const auto sliding = cache.blocks(seq, PageClass::kSliding);
    for (uint32_t page = 0; page < sliding.size(); ++page)
      if ((sliding[page] == kNoPage) != (page < sequence.firstSliding))
        return "a sequence holds other sliding pages";
    if (std::string wrong = world_.checkSequence(seq, sequence.key); !wrong.empty())
      return wrong;
  }
  for (const auto &[key, pages] : tree_) {
    const auto end = uint32_t(key.size());
    std::string wrong = world_.checkPage(PageClass::kGlobal, pages.global, key, end / kPage - 1, end);
    if (wrong.empty() && pages.sliding != kNoPage)
      wrong = world_.checkPage(PageClass::kSliding, pages.sliding, key, end / kPage - 1, end);
    if (!wrong.empty())
      return "in the tree, " + wrong;
  }
  return {};
}

/// Owners of a page: sequences whose block table names it, and the tree.
uint32_t PrefixModel::references(PageClass pageClass, PageId page) const {
  uint32_t count = 0;
  for (const auto &[seq, sequence] : sequences) {
    const auto blocks = world_.cache->blocks(seq, pageClass);
    count += uint32_t(std::count(blocks.begin(), blocks.end(), page));
  }
  for (const auto &[key, pages] : tree_)
    count += (pageClass == PageClass::kGlobal ? pages.global : pages.sliding) == page;
  return count;
}

/// Of equally old ones the one nearest to the root, as windows end at their deepest page.
std::optional<PrefixModel::Entry> PrefixModel::oldestSliding(bool idle) {
  std::optional<Entry> oldest;
  const auto age = [](Entry entry) {
    return std::tuple(entry->second.slidingUsed, entry->first.size(), entry->second.made);
  };
  for (Entry entry = tree_.begin(); entry != tree_.end(); ++entry) {
    const PageId page = entry->second.sliding;
    if (page != kNoPage && !(idle && references(PageClass::kSliding, page) > 1) &&
        (!oldest || age(entry) < age(*oldest)))
      oldest = entry;
  }
  return oldest;
}

std::optional<PrefixModel::Entry> PrefixModel::oldestLeaf(bool idle) {
  std::optional<Entry> oldest;
  for (Entry entry = tree_.begin(); entry != tree_.end(); ++entry)
    if (isLeaf(entry) && !(idle && references(PageClass::kGlobal, entry->second.global) > 1) &&
        (!oldest || entry->second.globalUsed < (*oldest)->second.globalUsed))
      oldest = entry;
  return oldest;
}

void PrefixModel::evictSliding(Entry entry) {
  entry->second.sliding = kNoPage;
  stats.bytes -= kSlidingBytes;
  stats.pages.sliding -= 1;
  ++stats.evictedSliding;
}

void PrefixModel::evictLeaf(Entry entry) {
  if (entry->second.sliding != kNoPage)
    evictSliding(entry);
  tree_.erase(entry);
  stats.bytes -= kGlobalBytes;
  stats.pages.global -= 1;
  ++stats.evictedGlobal;
}

} // namespace g4::kv

/// Hands out page ids of one page class and counts their references.
///
/// One of a page's owners may be a cache, which holds pages that nobody needs at the moment. The pool counts
/// the pages that only the cache holds, so that what could be had is known without a search.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace g4::kv {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

/// Threads: scheduler thread only.
class PagePool {
public:
  explicit PagePool(uint32_t capacity);

  uint32_t capacity() const { return uint32_t(references_.size()); }
  uint32_t free() const { return uint32_t(free_.size()); }
  uint32_t used() const { return capacity() - free(); }

  /// A page with one reference. kNoPage when none is free. Lowest ids first, so that the storage behind a
  /// lightly used pool stays small.
  PageId acquire();
  /// One more owner of a page in use.
  void retain(PageId page);
  /// One owner less. True: that was the last, the page is free again.
  bool release(PageId page);

  /// A cache became, or is no longer, one of the owners of a page in use. Does not count as a reference:
  /// retain before, release after.
  void setCached(PageId page, bool cached);
  /// Pages whose only owner is a cache.
  uint32_t idle() const { return idle_; }

  uint32_t references(PageId page) const { return references_[size_t(page)]; }

private:
  bool isIdle(PageId page) const { return cached_[size_t(page)] && references_[size_t(page)] == 1; }

  std::vector<uint32_t> references_; // [capacity], 0 = free
  std::vector<bool> cached_;         // [capacity]
  std::vector<PageId> free_;         // a heap, lowest id on top
  uint32_t idle_ = 0;
};

} // namespace g4::kv

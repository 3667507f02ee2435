/// Hands out page ids of one page class and counts their references.
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

  uint32_t references(PageId page) const { return references_[size_t(page)]; }

private:
  std::vector<uint32_t> references_; // [capacity], 0 = free
  std::vector<PageId> free_;         // a heap, lowest id on top
};

} // namespace g4::kv

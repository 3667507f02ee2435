#include "runtime/kv/PagePool.h"

#include <algorithm>
#include <functional>

namespace g4::kv {

PagePool::PagePool(uint32_t capacity) : references_(capacity, 0), cached_(capacity, false), free_(capacity) {
  for (uint32_t i = 0; i < capacity; ++i)
    free_[i] = PageId(i); // ascending is a heap already
}

PageId PagePool::acquire() {
  if (free_.empty())
    return kNoPage;
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const PageId page = free_.back();
  free_.pop_back();
  references_[size_t(page)] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  idle_ -= isIdle(page);
  ++references_[size_t(page)];
}

bool PagePool::release(PageId page) {
  idle_ -= isIdle(page);
  if (--references_[size_t(page)] != 0) {
    idle_ += isIdle(page);
    return false;
  }
  cached_[size_t(page)] = false;
  free_.push_back(page);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
  return true;
}

void PagePool::setCached(PageId page, bool cached) {
  idle_ -= isIdle(page);
  cached_[size_t(page)] = cached;
  idle_ += isIdle(page);
}

} // namespace g4::kv

#include "test/support/FailingNew.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

struct State {
  uint64_t allowed = 0; // allocations before the first failure; counts only while active
  bool active = false;
  bool failed = false;
  uint64_t largest = 0;
};
thread_local State state;

void *allocate(size_t size, size_t alignment) {
  state.largest = std::max<uint64_t>(state.largest, size);
  if (state.active) {
    if (state.allowed == 0) {
      state.failed = true;
      return nullptr;
    }
    --state.allowed;
  }
  size = std::max<size_t>(size, 1);
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void *allocateOrThrow(size_t size, size_t alignment) {
  if (void *memory = allocate(size, alignment))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t size) { return allocateOrThrow(size, 1); }
void *operator new[](size_t size) { return allocateOrThrow(size, 1); }
void *operator new(size_t size, std::align_val_t a) { return allocateOrThrow(size, size_t(a)); }
void *operator new[](size_t size, std::align_val_t a) { return allocateOrThrow(size, size_t(a)); }
void *operator new(size_t size, const std::nothrow_t &) noexcept { return allocate(size, 1); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return allocate(size, 1); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }

namespace g4::test {

FailingNew::FailingNew(uint64_t n) {
  state.allowed = n - 1;
  state.active = true;
  state.failed = false;
}
FailingNew::~FailingNew() { state.active = false; }
bool FailingNew::failed() const { return state.failed; }

uint64_t takeLargestAllocation() {
  const uint64_t largest = state.largest;
  state.largest = 0;
  return largest;
}

} // namespace g4::test

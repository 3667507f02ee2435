/// Makes the n-th allocation through operator new fail, to test what running out of memory does.
/// The program links g4_test_failing_new, which replaces operator new.
#pragma once

#include <cstdint>

namespace g4::test {

/// While one lives, this thread's allocation number `n` (from 1) and all later ones throw std::bad_alloc.
class FailingNew {
public:
  explicit FailingNew(uint64_t n);
  ~FailingNew();
  FailingNew(const FailingNew &) = delete;
  FailingNew &operator=(const FailingNew &) = delete;
  /// Whether an allocation has failed since.
  bool failed() const;
};

/// The most bytes that this thread's allocations asked for at once, since the last call; 0 before the first.
uint64_t takeLargestAllocation();

} // namespace g4::test

/// Which pages there are, what they hold, and how many of them a program needs.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace g4::kv {

enum class PageClass : uint8_t { kSliding, kGlobal };
inline constexpr size_t kPageClasses = 2;
inline constexpr PageClass kClasses[kPageClasses] = {PageClass::kSliding, PageClass::kGlobal};

/// What a page holds; kQuantised: codes and f16 scales.
enum class Element : uint8_t { kF32, kF16, kBf16, kQuantised };

/// One layer that stores K/V.
struct LayerStore {
  PageClass pageClass;
  Element element;
  uint64_t pageBytes; ///< one page of this layer, laid out as runtime/module/KvLayout.h says
  bool operator==(const LayerStore &) const = default;
};

struct Geometry {
  uint32_t pageTokens; ///< positions per page
  uint32_t window;     ///< keys that a query of a sliding layer sees, its own included; >= 1
  std::vector<LayerStore> layers;

  /// Pages that hold `tokens` positions.
  uint32_t pagesOf(uint64_t tokens) const { return uint32_t((tokens + pageTokens - 1) / pageTokens); }
  /// First page with a key that a query at position `length` can see in a sliding layer.
  uint32_t firstPageOfWindow(uint64_t length) const {
    return uint32_t((length >= window ? length - window + 1 : 0) / pageTokens);
  }
  /// First sliding page that a sequence of `length` positions keeps: a prompt that begins as this sequence
  /// does may go on at its last whole page, or at the one before when the two differ a few tokens before the
  /// end.
  uint32_t firstPageKept(uint32_t length) const;
  /// Bytes of one page of a class, over all its layers.
  uint64_t pageBytes(PageClass pageClass) const;
};

/// A number of pages of each class.
struct PageCounts {
  uint32_t sliding = 0;
  uint32_t global = 0;
  uint32_t &operator[](PageClass c) { return c == PageClass::kSliding ? sliding : global; }
  uint32_t operator[](PageClass c) const { return c == PageClass::kSliding ? sliding : global; }
  bool operator==(const PageCounts &) const = default;
};

struct Capacity {
  uint32_t slidingPages;
  uint32_t globalPages;
  /// Tests: every free page is full of NaN, so that a kernel that reads what it must not shows.
  bool poisonFreePages = false;
};

/// Pages for `sequences` sequences of at most `contextTokens` positions, with at most `stepRows` rows in one
/// step. `holds`: each of them may hold (KvCache::hold).
Capacity capacityFor(const Geometry &geometry, uint32_t sequences, uint32_t contextTokens, uint32_t stepRows,
                     bool holds = false);

/// Pages that take at most `bytes`, for running sequences and what a PrefixTree keeps, in any mixture.
///
/// A conversation takes sliding pages for a window and global pages for its whole length. How long they will
/// be is not known, so each class gets half of the bytes: whatever comes, the class that runs out first had
/// at least half of what the best division would give it. Three things go before that:
///   - each class holds at least one sequence with its window and one step;
///   - beyond that, global pages hold one sequence of `contextTokens`, if the bytes suffice;
///   - no more sliding pages than global pages, as both stand for positions of the same sequences.
/// Errors: kInvalidArgument when not even one sequence with its window and one step fits.
Result<Capacity> capacityForBytes(const Geometry &geometry, uint64_t bytes, uint32_t contextTokens,
                                  uint32_t stepRows);

} // namespace g4::kv

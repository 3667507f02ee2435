#include "runtime/kv/Geometry.h"

#include "runtime/kv/PagePool.h"

#include <algorithm>
#include <limits>
#include <string>

namespace g4::kv {
namespace {

constexpr uint64_t kMostPages = std::numeric_limits<PageId>::max();

/// Sliding pages of a sequence before a step, at most: those of the window before its last boundary but one,
/// the page up to the last boundary and the page after it, and one for the odd end of the rows that a step
/// adds.
uint32_t slidingPerSequence(const Geometry &geometry) { return geometry.pagesOf(geometry.window - 1) + 3; }

} // namespace

uint32_t Geometry::firstPageKept(uint32_t length) const {
  const uint32_t last = length == 0 ? 0 : (length - 1) / pageTokens;
  return last == 0 ? 0 : firstPageOfWindow(uint64_t(last - 1) * pageTokens);
}

uint64_t Geometry::pageBytes(PageClass pageClass) const {
  uint64_t bytes = 0;
  for (const LayerStore &layer : layers)
    if (layer.pageClass == pageClass)
      bytes += layer.pageBytes;
  return bytes;
}

Capacity capacityFor(const Geometry &geometry, uint32_t sequences, uint32_t contextTokens, uint32_t stepRows,
                     bool holds) {
  const uint64_t global = uint64_t(sequences) * geometry.pagesOf(contextTokens);
  // A step of r rows adds at most ceil(r / pageTokens) pages beside the odd end; all sequences share its
  // rows. A hold keeps as many pages as a sequence has.
  const uint64_t sliding =
      uint64_t(sequences) * slidingPerSequence(geometry) * (holds ? 2 : 1) + geometry.pagesOf(stepRows);
  Capacity capacity{};
  capacity.globalPages = uint32_t(std::min(global, kMostPages));
  capacity.slidingPages = uint32_t(std::min({sliding, global, kMostPages}));
  return capacity;
}

Result<Capacity> capacityForBytes(const Geometry &geometry, uint64_t bytes, uint32_t contextTokens,
                                  uint32_t stepRows) {
  const uint64_t sliding = geometry.pageBytes(PageClass::kSliding);
  const uint64_t global = geometry.pageBytes(PageClass::kGlobal);
  const uint64_t context = geometry.pagesOf(contextTokens);
  const uint64_t least =
      std::min(context, uint64_t(slidingPerSequence(geometry)) + geometry.pagesOf(stepRows));
  const uint64_t both = sliding + global;
  if (both && bytes / both < least)
    return invalidArgument("K/V memory of " + std::to_string(bytes) +
                           " bytes is too small: one sequence with " + "its window and one step takes " +
                           std::to_string(least * both));
  uint64_t globalPages = 0, slidingPages = 0;
  if (global && sliding) {
    const uint64_t most = (bytes - least * sliding) / global; // leaves the sliding pages of one sequence
    const uint64_t half = std::max(bytes / 2 / global, bytes / both); // no fewer than there are sliding pages
    globalPages = std::min(std::max(half, context), most);
  } else if (global) {
    globalPages = bytes / global;
  }
  if (sliding)
    slidingPages = (bytes - globalPages * global) / sliding;
  if (sliding && global)
    slidingPages = std::min(slidingPages, globalPages);
  Capacity capacity{};
  capacity.globalPages = uint32_t(std::min(globalPages, kMostPages));
  capacity.slidingPages = uint32_t(std::min(slidingPages, kMostPages));
  return capacity;
}

} // namespace g4::kv

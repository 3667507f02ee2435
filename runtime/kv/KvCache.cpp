#include "runtime/kv/KvCache.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace g4::kv {
namespace {

constexpr PageClass kClasses[] = {PageClass::kSliding, PageClass::kGlobal};

uint32_t ceilDiv(uint64_t a, uint32_t b) { return uint32_t((a + b - 1) / b); }

void fillNan(std::byte *data, uint64_t bytes, Element element) {
  if (element == Element::kF32) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (uint64_t i = 0; i + sizeof nan <= bytes; i += sizeof nan)
      std::memcpy(data + i, &nan, sizeof nan);
    return;
  }
  // The same bytes fill codes: a code that is read brings its scale, which is NaN.
  const uint16_t nan = element == Element::kBf16 ? 0x7fc0 : 0x7e00;
  for (uint64_t i = 0; i + sizeof nan <= bytes; i += sizeof nan)
    std::memcpy(data + i, &nan, sizeof nan);
}

Status unknownSequence(SeqId seq) { return invalidArgument("no sequence " + std::to_string(uint64_t(seq))); }

} // namespace

Capacity capacityFor(const Geometry &geometry, uint32_t sequences, uint32_t contextTokens, uint32_t stepRows,
                     bool holds) {
  const uint32_t t = geometry.pageTokens;
  const uint64_t global = uint64_t(sequences) * ceilDiv(contextTokens, t);
  // Before a step a sequence holds the pages of the window before its last boundary and the page after it; a
  // step of r rows adds at most ceil(r / t) pages and one for the odd end. All sequences share stepRows.
  // A hold keeps as many: the window before a boundary, the page after it, and one more.
  const uint64_t perSequence = (holds ? 2 : 1) * uint64_t(ceilDiv(geometry.window - 1, t) + 2);
  const uint64_t sliding = sequences * perSequence + ceilDiv(stepRows, t);
  constexpr uint64_t kMost = std::numeric_limits<PageId>::max();
  Capacity capacity{};
  capacity.globalPages = uint32_t(std::min(global, kMost));
  capacity.slidingPages = uint32_t(std::min({sliding, global, kMost}));
  return capacity;
}

KvCache::KvCache(Geometry geometry, Capacity capacity)
    : geometry_(std::move(geometry)),
      poison_(capacity.poisonFreePages), pools_{PagePool(capacity.slidingPages),
                                                PagePool(capacity.globalPages)} {}

Result<std::unique_ptr<KvCache>> KvCache::create(device::Device &device, Geometry geometry,
                                                 Capacity capacity) {
  if (geometry.pageTokens == 0 || geometry.window == 0)
    return invalidArgument("K/V geometry with an empty page or window");
  std::unique_ptr<KvCache> cache(new KvCache(std::move(geometry), capacity));
  for (const LayerStore &layer : cache->geometry_.layers) {
    const uint64_t pages = cache->pool(layer.pageClass).capacity();
    if (layer.pageBytes > std::numeric_limits<int64_t>::max() / std::max<uint64_t>(pages, 1))
      return invalidArgument("K/V pages of " + std::to_string(layer.pageBytes) + " bytes are too large");
    G4_ASSIGN_OR_RETURN(auto memory, device.allocate(pages * layer.pageBytes));
    cache->storage_.push_back(std::move(memory));
    cache->classPageBytes_[size_t(layer.pageClass)] += layer.pageBytes;
  }
  for (PageClass pageClass : kClasses)
    for (uint32_t page = 0; cache->poison_ && page < cache->pool(pageClass).capacity(); ++page)
      cache->poison(pageClass, PageId(page));
  return cache;
}

SeqId KvCache::open() {
  Sequence &sequence = sequences_.emplace_back();
  sequence.id = SeqId(nextId_++);
  return sequence.id;
}

Status KvCache::close(SeqId seq) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  shrink(*sequence, 0);
  sequences_.erase(sequences_.begin() + (sequence - sequences_.data()));
  return {};
}

Result<uint32_t> KvCache::length(SeqId seq) const {
  if (const Sequence *sequence = find(seq))
    return sequence->length;
  return unknownSequence(seq);
}

Status KvCache::reserve(SeqId seq, uint32_t tokens) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  const uint64_t want = ceilDiv(uint64_t(sequence->length) + tokens, geometry_.pageTokens);
  const uint64_t have = sequence->blocks[0].size(); // both classes stand for the same positions
  if (want <= have)
    return {};
  const uint64_t extra = want - have;
  for (PageClass pageClass : kClasses)
    if (classPageBytes_[size_t(pageClass)] && pool(pageClass).free() < extra)
      return resourceExhausted("K/V memory is full: " + std::to_string(extra) + " more " +
                               (pageClass == PageClass::kSliding ? "sliding" : "global") + " pages wanted, " +
                               std::to_string(pool(pageClass).free()) + " of " +
                               std::to_string(pool(pageClass).capacity()) + " free");
  for (PageClass pageClass : kClasses)
    for (uint64_t i = 0; i < extra; ++i)
      sequence->blocks[size_t(pageClass)].push_back(
          classPageBytes_[size_t(pageClass)] ? pools_[size_t(pageClass)].acquire() : kNoPage);
  return {};
}

Status KvCache::advance(SeqId seq, uint32_t tokens) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  if (uint64_t(sequence->length) + tokens > uint64_t(sequence->blocks[0].size()) * geometry_.pageTokens)
    return invalidArgument("advanced past the reserved positions");
  sequence->length += tokens;
  const uint32_t boundary = sequence->length / geometry_.pageTokens * geometry_.pageTokens;
  const uint32_t keep = firstPageOfWindow(boundary);
  for (; sequence->firstSlidingPage < keep; ++sequence->firstSlidingPage)
    if (!sequence->holds(sequence->firstSlidingPage))
      releaseSliding(*sequence, sequence->firstSlidingPage);
  return {};
}

Status KvCache::hold(SeqId seq) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  const uint32_t end = std::min(sequence->heldEnd, sequence->firstSlidingPage);
  for (uint32_t page = sequence->heldFirst; page < end; ++page)
    releaseSliding(*sequence, page);
  sequence->heldFirst = sequence->firstSlidingPage;
  sequence->heldEnd = sequence->length / geometry_.pageTokens + 2;
  return {};
}

Status KvCache::truncate(SeqId seq, uint32_t length) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  if (length > sequence->length)
    return invalidArgument("cannot cut a sequence of " + std::to_string(sequence->length) + " positions to " +
                           std::to_string(length));
  const uint32_t first = firstPageOfWindow(length);
  const bool held =
      first >= sequence->heldFirst && length <= uint64_t(sequence->heldEnd) * geometry_.pageTokens;
  if (length > 0 && length < sequence->length && first < sequence->firstSlidingPage && !held)
    return invalidArgument("cannot cut to " + std::to_string(length) +
                           " positions: the sliding window before them was released");
  if (length < sequence->length)
    sequence->firstSlidingPage = std::min(sequence->firstSlidingPage, first);
  if (length == 0)
    sequence->heldFirst = sequence->heldEnd = 0;
  sequence->length = length;
  shrink(*sequence, ceilDiv(length, geometry_.pageTokens));
  return {};
}

std::span<const PageId> KvCache::blocks(SeqId seq, PageClass pageClass) const {
  if (const Sequence *sequence = find(seq))
    return sequence->blocks[size_t(pageClass)];
  return {};
}

uint64_t KvCache::usedBytes(PageClass pageClass) const {
  return pool(pageClass).used() * pageBytes(pageClass);
}

KvCache::Sequence *KvCache::find(SeqId seq) {
  return const_cast<Sequence *>(static_cast<const KvCache *>(this)->find(seq));
}

const KvCache::Sequence *KvCache::find(SeqId seq) const {
  auto it =
      std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence &s) { return s.id == seq; });
  return it == sequences_.end() ? nullptr : &*it;
}

/// Lets go of all blocks from absolute page `pages` on.
void KvCache::shrink(Sequence &sequence, uint32_t pages) {
  for (PageClass pageClass : kClasses) {
    std::vector<PageId> &blocks = sequence.blocks[size_t(pageClass)];
    for (; blocks.size() > pages; blocks.pop_back())
      release(pageClass, blocks.back());
  }
  sequence.firstSlidingPage = std::min(sequence.firstSlidingPage, pages);
}

void KvCache::releaseSliding(Sequence &sequence, uint32_t index) {
  PageId &page = sequence.blocks[size_t(PageClass::kSliding)][index];
  release(PageClass::kSliding, page);
  page = kNoPage;
}

void KvCache::release(PageClass pageClass, PageId page) {
  if (page != kNoPage && pools_[size_t(pageClass)].release(page) && poison_)
    poison(pageClass, page);
}

void KvCache::poison(PageClass pageClass, PageId page) {
  for (size_t i = 0; i < geometry_.layers.size(); ++i) {
    const LayerStore &layer = geometry_.layers[i];
    if (layer.pageClass == pageClass)
      fillNan(layerData(i) + uint64_t(page) * layer.pageBytes, layer.pageBytes, layer.element);
  }
}

/// First page with a key that a query at position `length` can see in a sliding layer.
uint32_t KvCache::firstPageOfWindow(uint32_t length) const {
  const uint32_t first = length >= geometry_.window ? length - geometry_.window + 1 : 0;
  return first / geometry_.pageTokens;
}

} // namespace g4::kv

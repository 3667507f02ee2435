#include "runtime/kv/KvCache.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace g4::kv {
namespace {

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
    // Pools hand out their lowest pages first: a long context fills large pages. Windows are short, and many.
    const auto size = layer.pageClass == PageClass::kGlobal ? device::Pages::kLarge : device::Pages::kSmall;
    G4_ASSIGN_OR_RETURN(auto memory, device.allocate(pages * layer.pageBytes, size));
    cache->storage_.push_back(std::move(memory));
  }
  for (PageClass pageClass : kClasses)
    cache->classPageBytes_[size_t(pageClass)] = cache->geometry_.pageBytes(pageClass);
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

SeqId KvCache::openShared(std::span<const PageId> sliding, std::span<const PageId> global) {
  const SeqId id = open();
  Sequence &sequence = sequences_.back();
  sequence.length = uint32_t(global.size()) * geometry_.pageTokens;
  sequence.firstSlidingPage =
      uint32_t(std::find_if(sliding.begin(), sliding.end(), [](PageId page) { return page != kNoPage; }) -
               sliding.begin());
  sequence.blocks[size_t(PageClass::kSliding)].assign(sliding.begin(), sliding.end());
  sequence.blocks[size_t(PageClass::kGlobal)].assign(global.begin(), global.end());
  for (PageClass pageClass : kClasses)
    for (PageId page : sequence.blocks[size_t(pageClass)])
      retain(pageClass, page);
  return id;
}

Result<SeqId> KvCache::openFilled(uint32_t length, uint32_t firstSliding) {
  const uint32_t pages = geometry_.pagesOf(length);
  G4_RETURN_IF_ERROR(checkRoom({pages - firstSliding, pages}));
  const SeqId id = open();
  Sequence &sequence = sequences_.back();
  sequence.length = length;
  sequence.firstSlidingPage = firstSliding;
  for (PageClass pageClass : kClasses)
    for (uint32_t page = 0; page < pages; ++page)
      sequence.blocks[size_t(pageClass)].push_back(
          pageClass == PageClass::kSliding && page < firstSliding ? kNoPage : acquire(pageClass));
  return id;
}

Result<SeqId> KvCache::fork(SeqId seq) {
  if (!find(seq))
    return unknownSequence(seq);
  const SeqId id = open();
  const Sequence &from = *find(seq); // open may have moved it
  Sequence &sequence = sequences_.back();
  sequence.length = from.length;
  sequence.firstSlidingPage = from.firstSlidingPage;
  const uint32_t pages = geometry_.pagesOf(from.length);
  for (PageClass pageClass : kClasses) {
    const std::vector<PageId> &blocks = from.blocks[size_t(pageClass)];
    for (uint32_t page = 0; page < pages; ++page) {
      const bool out = pageClass == PageClass::kSliding && page < from.firstSlidingPage;
      sequence.blocks[size_t(pageClass)].push_back(out ? kNoPage : blocks[page]);
      retain(pageClass, sequence.blocks[size_t(pageClass)].back());
    }
  }
  return id;
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

Result<PageCounts> KvCache::pagesFor(std::span<const Growth> growths) const {
  PageCounts wanted;
  for (const Growth &growth : growths) {
    const Sequence *sequence = find(growth.seq);
    if (!sequence)
      return unknownSequence(growth.seq);
    for (PageClass pageClass : kClasses)
      if (classPageBytes_[size_t(pageClass)] && growth.tokens)
        wanted[pageClass] += extraPages(*sequence, growth.tokens) + goesOnInShared(*sequence, pageClass);
  }
  return wanted;
}

Status KvCache::reserve(std::span<const Growth> growths) {
  G4_ASSIGN_OR_RETURN(const PageCounts wanted, pagesFor(growths));
  G4_RETURN_IF_ERROR(checkRoom(wanted));
  for (const Growth &growth : growths) {
    Sequence &sequence = *find(growth.seq);
    const uint32_t extra = growth.tokens ? extraPages(sequence, growth.tokens) : 0;
    for (PageClass pageClass : kClasses) {
      if (growth.tokens && goesOnInShared(sequence, pageClass))
        ownNextPage(sequence, pageClass);
      for (uint32_t i = 0; i < extra; ++i)
        sequence.blocks[size_t(pageClass)].push_back(acquire(pageClass));
    }
  }
  return {};
}

Status KvCache::advance(SeqId seq, uint32_t tokens) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  if (uint64_t(sequence->length) + tokens > uint64_t(sequence->blocks[0].size()) * geometry_.pageTokens)
    return invalidArgument("advanced past the reserved positions");
  for (PageClass pageClass : kClasses)
    if (tokens && goesOnInShared(*sequence, pageClass))
      return invalidArgument("advanced into a page that is shared");
  sequence->length += tokens;
  const uint32_t keep = geometry_.firstPageKept(sequence->length);
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
  sequence->heldEnd = geometry_.pagesOf(sequence->length) + 1;
  return {};
}

Status KvCache::truncate(SeqId seq, uint32_t length) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  if (length > sequence->length)
    return invalidArgument("cannot cut a sequence of " + std::to_string(sequence->length) + " positions to " +
                           std::to_string(length));
  const uint32_t first = geometry_.firstPageOfWindow(length);
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
  shrink(*sequence, geometry_.pagesOf(length));
  return {};
}

Status KvCache::share(SeqId seq, PageClass pageClass, uint32_t index, PageId page) {
  Sequence *sequence = find(seq);
  if (!sequence)
    return unknownSequence(seq);
  std::vector<PageId> &blocks = sequence->blocks[size_t(pageClass)];
  if (index >= blocks.size() || blocks[index] == kNoPage)
    return invalidArgument("a sequence has no page " + std::to_string(index) + " to share");
  retain(pageClass, page);
  release(pageClass, blocks[index]);
  blocks[index] = page;
  return {};
}

void KvCache::retainCached(PageClass pageClass, PageId page) {
  retain(pageClass, page);
  pools_[size_t(pageClass)].setCached(page, true);
}

void KvCache::releaseCached(PageClass pageClass, PageId page) {
  pools_[size_t(pageClass)].setCached(page, false);
  release(pageClass, page);
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

Status KvCache::checkRoom(const PageCounts &wanted) const {
  for (PageClass pageClass : kClasses)
    if (classPageBytes_[size_t(pageClass)] && pool(pageClass).free() < wanted[pageClass])
      return resourceExhausted("K/V memory is full: " + std::to_string(wanted[pageClass]) + " more " +
                               (pageClass == PageClass::kSliding ? "sliding" : "global") + " pages wanted, " +
                               std::to_string(pool(pageClass).free()) + " of " +
                               std::to_string(pool(pageClass).capacity()) + " free");
  return {};
}

/// Pages that `tokens` more positions need beyond those that the sequence has.
uint32_t KvCache::extraPages(const Sequence &sequence, uint32_t tokens) const {
  const uint32_t want = geometry_.pagesOf(uint64_t(sequence.length) + tokens);
  const auto have = uint32_t(sequence.blocks[0].size()); // both classes stand for the same positions
  return want > have ? want - have : 0;
}

/// The next position lies in a page that holds earlier ones and has other owners.
bool KvCache::goesOnInShared(const Sequence &sequence, PageClass pageClass) const {
  if (sequence.length % geometry_.pageTokens == 0)
    return false;
  const PageId page = sequence.blocks[size_t(pageClass)][sequence.length / geometry_.pageTokens];
  return page != kNoPage && pool(pageClass).references(page) > 1;
}

/// A page with one owner; kNoPage for a class without layers.
PageId KvCache::acquire(PageClass pageClass) {
  return classPageBytes_[size_t(pageClass)] ? pools_[size_t(pageClass)].acquire() : kNoPage;
}

void KvCache::retain(PageClass pageClass, PageId page) {
  if (page != kNoPage)
    pools_[size_t(pageClass)].retain(page);
}

/// Replaces the page that the sequence goes on in by a copy of its own.
void KvCache::ownNextPage(Sequence &sequence, PageClass pageClass) {
  PageId &page = sequence.blocks[size_t(pageClass)][sequence.length / geometry_.pageTokens];
  const PageId copy = acquire(pageClass);
  for (size_t i = 0; i < geometry_.layers.size(); ++i)
    if (geometry_.layers[i].pageClass == pageClass)
      std::ranges::copy(pageData(i, page), pageData(i, copy).data());
  release(pageClass, page);
  page = copy;
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
      fillNan(pageData(i, page).data(), layer.pageBytes, layer.element);
  }
}

} // namespace g4::kv

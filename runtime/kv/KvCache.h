/// Keys and values of all sequences, in pages of two classes: sliding layers' pages and global layers' pages.
/// A page of a class stands for the same positions (Geometry::pageTokens) in every layer of that class.
///
/// Pages may have several owners: sequences that begin alike, and a PrefixTree. A page with more than one is
/// never written: the pages that a sequence shares are whole, or become its own (a copy) when it makes room
/// to go on.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/kv/Geometry.h"
#include "runtime/kv/PagePool.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace g4::kv {

/// What a sequence is called; never reused within a cache.
enum class SeqId : uint64_t {};

/// Positions that a step adds to a sequence.
struct Growth {
  SeqId seq;
  uint32_t tokens;
};

/// Threads: scheduler thread only; kernels write the pages while a step runs.
class KvCache {
public:
  /// Storage for each layer is mapped at full capacity and touched lazily.
  /// Errors: kInvalidArgument (geometry), kResourceExhausted (address space).
  static Result<std::unique_ptr<KvCache>> create(device::Device &device, Geometry geometry,
                                                 Capacity capacity);

  const Geometry &geometry() const { return geometry_; }

  SeqId open();
  /// A sequence on pages that others hold: block tables as blocks() gives them, of whole pages all of whose
  /// positions hold K/V. Every page but kNoPage gets one more owner.
  SeqId openShared(std::span<const PageId> sliding, std::span<const PageId> global);
  /// A sequence of `length` positions, whose pages the caller fills: all global pages, and sliding pages from
  /// page `firstSliding` on. Errors: kResourceExhausted (nothing taken).
  Result<SeqId> openFilled(uint32_t length, uint32_t firstSliding);
  /// A second sequence that holds what `seq` holds, on the same pages; held and reserved pages stay with
  /// `seq`. Errors: kInvalidArgument (unknown sequence).
  Result<SeqId> fork(SeqId seq);
  /// Gives all pages of `seq` back. Errors: kInvalidArgument (unknown sequence).
  Status close(SeqId seq);

  /// Positions of `seq` that hold K/V.
  Result<uint32_t> length(SeqId seq) const;

  /// Pages that reserve(growths) takes at most. Errors: kInvalidArgument (unknown sequence).
  Result<PageCounts> pagesFor(std::span<const Growth> growths) const;
  /// Makes room for more positions of several sequences, each listed once, all or nothing. Where a sequence
  /// goes on in the middle of a page that it shares, it gets a copy of that page. Units:   positions; one
  /// page holds geometry().pageTokens. Owner:   the cache keeps the pages; the sequence borrows them until
  /// close, truncate or advance lets them go.
  /// Errors:  kResourceExhausted (nothing reserved), kInvalidArgument (unknown sequence).
  Status reserve(std::span<const Growth> growths);
  Status reserve(SeqId seq, uint32_t tokens) {
    const Growth growth{seq, tokens};
    return reserve({&growth, 1});
  }

  /// The next `tokens` positions have been written. Lets go of the sliding pages before
  /// Geometry::firstPageKept: a cache hit or a retry may still start at what is kept.
  /// Errors: kInvalidArgument (unknown sequence, more than was reserved, or into a page shared since).
  Status advance(SeqId seq, uint32_t tokens);

  /// Keeps a way back: however far `seq` grows, it can be truncated to the present length, and to up to a
  /// page more. Costs the sliding pages of one window, until the next hold or close. Errors: kInvalidArgument
  /// (unknown sequence).
  Status hold(SeqId seq);

  /// Forgets positions [length, ...), or all. Unused reserved pages go back too, so truncate(seq,
  /// length(seq)) undoes a reserve, but for the copy of a shared page. Errors: kInvalidArgument when `length`
  /// is beyond the sequence, or so far back that its window was released and is not held.
  Status truncate(SeqId seq, uint32_t length);

  /// `page`, which holds the same keys and values, takes the place of page `index` of `seq`.
  /// Errors: kInvalidArgument (`seq` is unknown or has no page there).
  Status share(SeqId seq, PageClass pageClass, uint32_t index, PageId page);
  /// The prefix tree becomes one of the owners of a page in use, or ceases to be.
  void retainCached(PageClass pageClass, PageId page);
  void releaseCached(PageClass pageClass, PageId page);

  /// Page ids of `seq` by absolute page number (position / pageTokens); kNoPage = released.
  /// Owner: the cache; valid until the next call that changes the sequence. Empty for an unknown sequence.
  std::span<const PageId> blocks(SeqId seq, PageClass pageClass) const;

  /// Where page 0 of layer store `index` (of geometry().layers) begins; page p is p * pageBytes further.
  std::byte *layerData(size_t index) const { return storage_[index]->data(); }

  /// The same for one page of it.
  std::span<std::byte> pageData(size_t index, PageId page) const {
    const uint64_t bytes = geometry_.layers[index].pageBytes;
    return {layerData(index) + uint64_t(page) * bytes, bytes};
  }

  const PagePool &pool(PageClass pageClass) const { return pools_[size_t(pageClass)]; }
  /// Bytes of the pages of a class in use, over all its layers.
  uint64_t usedBytes(PageClass pageClass) const;
  /// Bytes of one page of a class, over all its layers.
  uint64_t pageBytes(PageClass pageClass) const { return classPageBytes_[size_t(pageClass)]; }

private:
  struct Sequence {
    SeqId id;
    uint32_t length = 0;
    uint32_t firstSlidingPage = 0;       // pages before it were released, or are held
    uint32_t heldFirst = 0, heldEnd = 0; // sliding pages that stay
    std::array<std::vector<PageId>, kPageClasses> blocks;
    bool holds(uint32_t page) const { return page >= heldFirst && page < heldEnd; }
  };

  KvCache(Geometry geometry, Capacity capacity);
  Sequence *find(SeqId seq);
  const Sequence *find(SeqId seq) const;
  void shrink(Sequence &sequence, uint32_t pages);
  Status checkRoom(const PageCounts &wanted) const;
  uint32_t extraPages(const Sequence &sequence, uint32_t tokens) const;
  bool goesOnInShared(const Sequence &sequence, PageClass pageClass) const;
  PageId acquire(PageClass pageClass);
  void retain(PageClass pageClass, PageId page);
  void ownNextPage(Sequence &sequence, PageClass pageClass);
  void releaseSliding(Sequence &sequence, uint32_t index);
  void release(PageClass pageClass, PageId page);
  void poison(PageClass pageClass, PageId page);

  Geometry geometry_;
  bool poison_;
  std::array<PagePool, kPageClasses> pools_;
  std::array<uint64_t, kPageClasses> classPageBytes_{};
  std::vector<std::unique_ptr<device::Memory>> storage_; // [layers], [pages, pageBytes]
  std::vector<Sequence> sequences_;                      // few: searched linearly
  uint64_t nextId_ = 1;
};

} // namespace g4::kv

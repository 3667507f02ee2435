/// Keys and values of all sequences, in pages of two classes: sliding layers' pages and global layers' pages.
/// A page of a class stands for the same kPageTokens positions in every layer of that class.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/kv/PagePool.h"

#include <array>
#include <memory>
#include <vector>

namespace g4::kv {

enum class PageClass : uint8_t { kSliding, kGlobal };
inline constexpr size_t kPageClasses = 2;

/// What a page holds; kQuantised: codes and f16 scales.
enum class Element : uint8_t { kF32, kF16, kBf16, kQuantised };

/// One layer that stores K/V.
struct LayerStore {
  PageClass pageClass;
  Element element;
  uint64_t pageBytes; ///< one page of this layer, laid out as runtime/module/KvLayout.h says
};

struct Geometry {
  uint32_t pageTokens; ///< positions per page
  uint32_t window;     ///< keys that a query of a sliding layer sees, its own included; >= 1
  std::vector<LayerStore> layers;
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

/// What a sequence is called; never reused within a cache.
enum class SeqId : uint64_t {};

/// Threads: scheduler thread only; kernels write the pages while a step runs.
class KvCache {
public:
  /// Storage for each layer is mapped at full capacity and touched lazily.
  /// Errors: kInvalidArgument (geometry), kResourceExhausted (address space).
  static Result<std::unique_ptr<KvCache>> create(device::Device &device, Geometry geometry,
                                                 Capacity capacity);

  const Geometry &geometry() const { return geometry_; }

  SeqId open();
  /// Gives all pages of `seq` back. Errors: kInvalidArgument (unknown sequence).
  Status close(SeqId seq);

  /// Positions of `seq` that hold K/V.
  Result<uint32_t> length(SeqId seq) const;

  /// Makes room for `tokens` more positions of `seq`, all or nothing.
  /// Units:   positions; one page holds geometry().pageTokens.
  /// Owner:   the cache keeps the pages; the sequence borrows them until close, truncate or advance lets them
  /// go. Errors:  kResourceExhausted (nothing reserved), kInvalidArgument (unknown sequence).
  Status reserve(SeqId seq, uint32_t tokens);

  /// The next `tokens` positions have been written. Lets go of every sliding page that lies wholly before the
  /// window of the last page-aligned boundary: a cache hit or a retry may still start there.
  /// Errors: kInvalidArgument (unknown sequence, or more than was reserved).
  Status advance(SeqId seq, uint32_t tokens);

  /// Keeps a way back: however far `seq` grows, it can be truncated to the present length, and to up to a
  /// page more. Costs the sliding pages of one window, until the next hold or close. Errors: kInvalidArgument
  /// (unknown sequence).
  Status hold(SeqId seq);

  /// Forgets positions [length, ...), or all. Unused reserved pages go back too, so truncate(seq,
  /// length(seq)) undoes a reserve. Errors: kInvalidArgument when `length` is beyond the sequence, or so far
  /// back that its window was released and is not held.
  Status truncate(SeqId seq, uint32_t length);

  /// Page ids of `seq` by absolute page number (position / pageTokens); kNoPage = released.
  /// Owner: the cache; valid until the next call that changes the sequence. Empty for an unknown sequence.
  std::span<const PageId> blocks(SeqId seq, PageClass pageClass) const;

  /// Where page 0 of layer store `index` (of geometry().layers) begins; page p is p * pageBytes further.
  std::byte *layerData(size_t index) const { return storage_[index]->data(); }

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
  void releaseSliding(Sequence &sequence, uint32_t index);
  void release(PageClass pageClass, PageId page);
  void poison(PageClass pageClass, PageId page);
  uint32_t firstPageOfWindow(uint32_t length) const;

  Geometry geometry_;
  bool poison_;
  std::array<PagePool, kPageClasses> pools_;
  std::array<uint64_t, kPageClasses> classPageBytes_{};
  std::vector<std::unique_ptr<device::Memory>> storage_; // [layers], [pages, pageBytes]
  std::vector<Sequence> sequences_;                      // few: searched linearly
  uint64_t nextId_ = 1;
};

} // namespace g4::kv

/// A small cache and sequences whose pages hold what tells every position of every key from all others.
#pragma once

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/kv/KvCache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace g4::kv {

using Key = std::vector<uint64_t>;

inline constexpr uint32_t kPage = 4; // positions
inline constexpr PageClass kLayerClass[] = {PageClass::kSliding, PageClass::kGlobal, PageClass::kSliding};

/// Three layers; a position takes 8 bytes in each.
inline Geometry smallGeometry(uint32_t window) {
  Geometry geometry{kPage, window, {}};
  for (PageClass pageClass : kLayerClass)
    geometry.layers.push_back({pageClass, Element::kF32, kPage * sizeof(uint64_t)});
  return geometry;
}
inline constexpr uint64_t kSlidingBytes = 2 * kPage * 8, kGlobalBytes = kPage * 8; // of a page

/// What stands in `layer` at the last position of `prefix`.
inline uint64_t contentOf(std::span<const uint64_t> prefix, size_t layer) {
  uint64_t hash = 1000 + layer;
  for (uint64_t element : prefix)
    hash = (hash ^ element) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  return hash;
}

struct WrittenCache {
  explicit WrittenCache(uint32_t window, Capacity capacity)
      : device(device::createCpuDevice({1, {}})),
        cache(*KvCache::create(*device, smallGeometry(window), capacity)) {}

  /// Adds what follows in `key` up to `length` positions, as a step does.
  Status extend(SeqId seq, const Key &key, uint32_t length) {
    const uint32_t from = *cache->length(seq);
    G4_RETURN_IF_ERROR(cache->reserve(seq, length - from));
    for (uint32_t at = from; at < length; ++at)
      for (size_t layer = 0; layer < std::size(kLayerClass); ++layer) {
        const uint64_t content = contentOf(std::span(key).first(at + 1), layer);
        const PageId page = cache->blocks(seq, kLayerClass[layer])[at / kPage];
        std::memcpy(cache->pageData(layer, page).data() + at % kPage * 8, &content, 8);
      }
    return cache->advance(seq, length - from);
  }

  /// What is wrong with a page that should hold `key` in positions [index * kPage, end); empty if nothing is.
  std::string checkPage(PageClass pageClass, PageId page, const Key &key, uint32_t index,
                        uint32_t end) const {
    for (size_t layer = 0; layer < std::size(kLayerClass); ++layer)
      for (uint32_t at = index * kPage; kLayerClass[layer] == pageClass && at < end; ++at) {
        uint64_t have;
        std::memcpy(&have, cache->pageData(layer, page).data() + at % kPage * 8, 8);
        if (have != contentOf(std::span(key).first(at + 1), layer))
          return "layer " + std::to_string(layer) + " holds something else at position " + std::to_string(at);
      }
    return {};
  }

  /// What is wrong with a sequence that should hold `key`.
  std::string checkSequence(SeqId seq, const Key &key) const {
    const uint32_t length = *cache->length(seq);
    const uint32_t window = cache->geometry().firstPageOfWindow(length);
    if (length > key.size())
      return "a sequence is longer than its key";
    for (PageClass pageClass : kClasses)
      for (uint32_t index = 0; index * kPage < length; ++index) {
        const PageId page = cache->blocks(seq, pageClass)[index];
        if (page == kNoPage) {
          if (pageClass == PageClass::kGlobal || index >= window)
            return "page " + std::to_string(index) + " of a sequence is missing";
          continue;
        }
        if (std::string wrong = checkPage(pageClass, page, key, index, std::min(length, (index + 1) * kPage));
            !wrong.empty())
          return "in a sequence, " + wrong;
      }
    return {};
  }

  uint32_t used(PageClass pageClass) const { return cache->pool(pageClass).used(); }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<KvCache> cache;
};

} // namespace g4::kv

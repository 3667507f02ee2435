#include "runtime/kv/KvCache.h"
#include "runtime/device/cpu/CpuDevice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace g4::kv {
namespace {

constexpr uint32_t kTokens = 64, kWindow = 128;

class KvCacheTest : public testing::Test {
protected:
  std::unique_ptr<KvCache> make(Capacity capacity, uint32_t window = kWindow) {
    Geometry geometry{kTokens,
                      window,
                      {{PageClass::kSliding, Element::kF16, 256},
                       {PageClass::kSliding, Element::kF16, 256},
                       {PageClass::kGlobal, Element::kF32, 1024}}};
    auto cache = KvCache::create(*device, geometry, capacity);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    return *std::move(cache);
  }
  static void append(KvCache &cache, SeqId seq, uint32_t tokens) {
    Status status = cache.reserve(seq, tokens);
    ASSERT_TRUE(status.ok()) << status.message();
    status = cache.advance(seq, tokens);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::unique_ptr<device::Device> device = device::createCpuDevice({1, {}});
};

TEST_F(KvCacheTest, BlocksGrowByWholePages) {
  auto cache = make({8, 8});
  const SeqId seq = cache->open();
  append(*cache, seq, 1);
  EXPECT_EQ(cache->blocks(seq, PageClass::kGlobal).size(), 1u);
  append(*cache, seq, 63);
  EXPECT_EQ(cache->blocks(seq, PageClass::kGlobal).size(), 1u);
  append(*cache, seq, 1);
  EXPECT_EQ(cache->blocks(seq, PageClass::kGlobal).size(), 2u);
  EXPECT_EQ(cache->blocks(seq, PageClass::kSliding).size(), 2u);
  EXPECT_EQ(*cache->length(seq), 65u);
}

TEST_F(KvCacheTest, ReserveIsAllOrNothing) {
  auto cache = make({8, 3});
  const SeqId a = cache->open(), b = cache->open();
  append(*cache, a, 2 * kTokens);
  const Status full = cache->reserve(b, 2 * kTokens);
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 2u);
  EXPECT_EQ(cache->pool(PageClass::kSliding).used(), 2u);
  EXPECT_TRUE(cache->reserve(b, kTokens).ok());
}

TEST_F(KvCacheTest, SlidingPagesBehindTheWindowOfTheLastBoundaryButOneAreReleased) {
  auto cache = make({8, 64});
  const SeqId seq = cache->open();
  for (uint32_t length = 1; length <= 10 * kTokens; ++length) {
    append(*cache, seq, 1);
    const uint32_t last = (length - 1) / kTokens * kTokens, boundary = last ? last - kTokens : 0;
    const uint32_t first = boundary >= kWindow ? (boundary - kWindow + 1) / kTokens : 0;
    const auto blocks = cache->blocks(seq, PageClass::kSliding);
    for (uint32_t page = 0; page < blocks.size(); ++page)
      ASSERT_EQ(blocks[page] == kNoPage, page < first) << "length " << length << " page " << page;
    const auto global = cache->blocks(seq, PageClass::kGlobal);
    ASSERT_EQ(std::count(global.begin(), global.end(), kNoPage), 0);
  }
}

TEST_F(KvCacheTest, SlidingBytesStopGrowingAfterTheWindow) {
  auto cache = make({8, 1024});
  const SeqId seq = cache->open();
  uint64_t most = 0;
  for (int i = 0; i < 2 * int(kWindow / kTokens); ++i) { // two windows
    append(*cache, seq, kTokens);
    most = std::max(most, cache->usedBytes(PageClass::kSliding));
  }
  for (int i = 0; i < 62 * int(kWindow / kTokens); ++i) { // to sixty-four
    append(*cache, seq, kTokens);
    EXPECT_LE(cache->usedBytes(PageClass::kSliding), most);
  }
  EXPECT_EQ(cache->usedBytes(PageClass::kGlobal), 64 * kWindow / kTokens * 1024u);
}

TEST_F(KvCacheTest, CapacityForIsEnoughAtEveryOffsetAndChunk) {
  for (uint32_t window : {1u, 16u, 64u, 100u, 128u}) {
    for (uint32_t chunk : {1u, 7u, 64u, 100u, 200u}) {
      Geometry geometry{kTokens, window, {}};
      const Capacity capacity = capacityFor(geometry, 3, 2000, chunk);
      auto cache = make(capacity, window);
      const SeqId seqs[] = {cache->open(), cache->open(), cache->open()};
      append(*cache, seqs[1], 1);
      append(*cache, seqs[2], std::min(chunk, 63u));
      for (uint32_t i = 0; i < 2000 / chunk - 1; ++i)
        append(*cache, seqs[i % 3], chunk);
    }
  }
}

TEST_F(KvCacheTest, CloseReturnsEveryPage) {
  auto cache = make({16, 16});
  const SeqId a = cache->open(), b = cache->open();
  append(*cache, a, 300);
  append(*cache, b, 100);
  ASSERT_TRUE(cache->close(a).ok());
  ASSERT_TRUE(cache->close(b).ok());
  EXPECT_EQ(cache->pool(PageClass::kSliding).used(), 0u);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 0u);
  EXPECT_EQ(cache->close(a).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->reserve(a, 1).code(), Code::kInvalidArgument);
}

TEST_F(KvCacheTest, TruncateGoesBackToTheLastBoundaryButOneAndNotPastItsWindow) {
  auto cache = make({16, 16});
  const SeqId seq = cache->open();
  append(*cache, seq, 5 * kTokens + 10);
  EXPECT_TRUE(cache->truncate(seq, 5 * kTokens + 3).ok());
  EXPECT_TRUE(cache->truncate(seq, 5 * kTokens).ok());
  EXPECT_TRUE(cache->truncate(seq, 4 * kTokens).ok());
  EXPECT_EQ(cache->blocks(seq, PageClass::kGlobal).size(), 4u);
  EXPECT_EQ(cache->truncate(seq, 3 * kTokens).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->truncate(seq, 6 * kTokens).code(), Code::kInvalidArgument);
  EXPECT_EQ(*cache->length(seq), 4 * kTokens);
}

TEST_F(KvCacheTest, AHoldIsAWayBackHoweverFarTheSequenceGrew) {
  for (const uint32_t start : {1u, 100u, 5 * kTokens, 5 * kTokens + 17}) {
    for (const uint32_t more : {0u, 30u, kTokens - 1}) {
      Geometry geometry{kTokens, kWindow, {}};
      auto cache = make(capacityFor(geometry, 1, 40 * kTokens, kTokens, true));
      const SeqId seq = cache->open();
      while (*cache->length(seq) < start)
        append(*cache, seq, 1);
      ASSERT_TRUE(cache->hold(seq).ok());
      append(*cache, seq, more);
      const auto before = cache->blocks(seq, PageClass::kSliding);
      const std::vector<PageId> pages(before.begin(), before.end());
      for (int i = 0; i < 20; ++i)
        append(*cache, seq, kTokens);
      ASSERT_TRUE(cache->truncate(seq, start + more).ok()) << start << "+" << more;
      const auto after = cache->blocks(seq, PageClass::kSliding);
      const uint32_t first = start + more >= kWindow ? (start + more - kWindow + 1) / kTokens : 0;
      ASSERT_EQ(after.size(), pages.size());
      for (uint32_t page = first; page < pages.size(); ++page)
        EXPECT_EQ(after[page], pages[page]) << page;
      append(*cache, seq, kTokens); // and on again
      ASSERT_TRUE(cache->close(seq).ok());
      EXPECT_EQ(cache->pool(PageClass::kSliding).used(), 0u);
    }
  }
}

TEST_F(KvCacheTest, TheNextHoldLetsGoOfTheLast) {
  Geometry geometry{kTokens, kWindow, {}};
  auto cache = make(capacityFor(geometry, 1, 400 * kTokens, kTokens, true));
  const SeqId seq = cache->open();
  for (int i = 0; i < 100; ++i) {
    append(*cache, seq, kTokens);
    append(*cache, seq, kTokens);
    ASSERT_TRUE(cache->hold(seq).ok()); // would run out of pages if holds added up
    if (i > 1)                          // the first ones are within the window
      EXPECT_EQ(cache->truncate(seq, *cache->length(seq) - 2 * kTokens - 2).code(), Code::kInvalidArgument);
  }
  ASSERT_TRUE(cache->truncate(seq, 0).ok());
  EXPECT_EQ(cache->pool(PageClass::kSliding).used(), 0u);
  EXPECT_EQ(cache->hold(SeqId(99)).code(), Code::kInvalidArgument);
}

TEST_F(KvCacheTest, SeveralSequencesReserveTogetherOrNotAtAll) {
  auto cache = make({8, 4});
  const SeqId a = cache->open(), b = cache->open();
  const Growth most[] = {{a, 2 * kTokens}, {b, 3 * kTokens}}, fits[] = {{a, 2 * kTokens}, {b, 2 * kTokens}};
  EXPECT_EQ(*cache->pagesFor(most), (PageCounts{5, 5}));
  EXPECT_EQ(cache->reserve(most).code(), Code::kResourceExhausted);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used() + cache->pool(PageClass::kSliding).used(), 0u);
  EXPECT_TRUE(cache->reserve(fits).ok());
  EXPECT_EQ(*cache->pagesFor(fits), PageCounts{});
  const Growth unknown[] = {{a, kTokens}, {SeqId(99), 1}};
  EXPECT_EQ(cache->reserve(unknown).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 4u);
}

TEST_F(KvCacheTest, AForkSharesAllPagesUntilOneOfTheTwoGoesOn) {
  auto cache = make({16, 16});
  const SeqId a = cache->open();
  append(*cache, a, kTokens + 10);
  const auto global = [&](SeqId seq, size_t page) { return cache->blocks(seq, PageClass::kGlobal)[page]; };
  std::memset(cache->pageData(2, global(a, 1)).data(), 42, 1024);
  const SeqId b = *cache->fork(a);
  EXPECT_EQ(*cache->length(b), kTokens + 10);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 2u);
  EXPECT_EQ(cache->pool(PageClass::kSliding).used(), 2u);

  EXPECT_EQ(cache->advance(b, 1).code(), Code::kInvalidArgument); // the page is not its own
  const Growth growth[] = {{b, 1}};
  EXPECT_EQ(*cache->pagesFor(growth), (PageCounts{1, 1}));
  append(*cache, b, 1);
  EXPECT_EQ(global(a, 0), global(b, 0));
  ASSERT_NE(global(a, 1), global(b, 1));
  EXPECT_EQ(cache->pageData(2, global(b, 1))[100], std::byte(42)) << "the copy lacks what was there";
  append(*cache, a, 1); // the other is alone on its page now
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 3u);
  ASSERT_TRUE(cache->close(a).ok());
  append(*cache, b, kTokens);
  ASSERT_TRUE(cache->close(b).ok());
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used() + cache->pool(PageClass::kSliding).used(), 0u);
  EXPECT_EQ(cache->fork(a).status().code(), Code::kInvalidArgument);
}

TEST_F(KvCacheTest, ASequenceCutIntoASharedPageDoesNotWriteIt) {
  auto cache = make({16, 16});
  const SeqId a = cache->open();
  append(*cache, a, 2 * kTokens);
  const SeqId b = *cache->fork(a);
  ASSERT_TRUE(cache->truncate(b, kTokens + 5).ok());
  append(*cache, b, 3);
  for (PageClass pageClass : kClasses) {
    EXPECT_EQ(cache->blocks(a, pageClass)[0], cache->blocks(b, pageClass)[0]);
    EXPECT_NE(cache->blocks(a, pageClass)[1], cache->blocks(b, pageClass)[1]);
  }
}

TEST_F(KvCacheTest, TruncateToTheLengthUndoesAReserve) {
  auto cache = make({16, 16});
  const SeqId seq = cache->open();
  append(*cache, seq, 10);
  ASSERT_TRUE(cache->reserve(seq, 500).ok());
  ASSERT_TRUE(cache->truncate(seq, 10).ok());
  EXPECT_EQ(cache->pool(PageClass::kGlobal).used(), 1u);
  EXPECT_EQ(cache->advance(seq, 100).code(), Code::kInvalidArgument);
}

TEST_F(KvCacheTest, PoisonedPagesAreNanWheneverTheyAreFree) {
  Capacity capacity{4, 4, true};
  auto cache = make(capacity);
  const auto isNan = [&](PageId page) {
    float value;
    std::memcpy(&value, cache->layerData(2) + page * 1024 + 512, 4);
    uint16_t half;
    std::memcpy(&half, cache->layerData(0) + page * 256 + 100, 2);
    return std::isnan(value) && half == 0x7e00;
  };
  for (PageId page = 0; page < 4; ++page)
    EXPECT_TRUE(isNan(page));
  const SeqId seq = cache->open();
  append(*cache, seq, 1);
  const PageId page = cache->blocks(seq, PageClass::kGlobal)[0];
  std::memset(cache->layerData(2) + page * 1024, 0, 1024);
  std::memset(cache->layerData(0) + page * 256, 0, 256);
  EXPECT_FALSE(isNan(page));
  ASSERT_TRUE(cache->close(seq).ok());
  EXPECT_TRUE(isNan(page));
}

/// A quantised page without a finite scale has no finite value, whatever its codes are.
TEST_F(KvCacheTest, FreeQuantisedPagesHaveNoFiniteScale) {
  Geometry geometry{kTokens, kWindow, {{PageClass::kGlobal, Element::kQuantised, 4352}}};
  auto cache = KvCache::create(*device, geometry, {0, 2, true});
  ASSERT_TRUE(cache.ok());
  for (uint64_t at = 0; at < 2 * 4352; at += 2) {
    uint16_t half;
    std::memcpy(&half, (*cache)->layerData(0) + at, 2);
    ASSERT_EQ(half, 0x7e00) << at;
  }
}

TEST_F(KvCacheTest, AModelWithOneClassUsesNoPagesOfTheOther) {
  Geometry geometry{kTokens, kWindow, {{PageClass::kGlobal, Element::kF32, 1024}}};
  auto cache = KvCache::create(*device, geometry, {0, 4});
  ASSERT_TRUE(cache.ok());
  const SeqId seq = (*cache)->open();
  append(**cache, seq, 200);
  EXPECT_EQ((*cache)->pool(PageClass::kGlobal).used(), 4u);
  EXPECT_EQ((*cache)->usedBytes(PageClass::kSliding), 0u);
}

} // namespace
} // namespace g4::kv

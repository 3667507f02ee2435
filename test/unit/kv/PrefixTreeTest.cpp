#include "runtime/kv/PrefixTree.h"
#include "test/unit/kv/WrittenCache.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace g4::kv {
namespace {

constexpr uint32_t kWindow = 8; // a boundary's window is two pages, and part of a third is none
constexpr uint64_t kNoCap = UINT64_MAX;

/// 1, 2, 3, ...
Key count(size_t length) {
  Key key(length);
  std::iota(key.begin(), key.end(), 1);
  return key;
}
Key operator+(Key key, std::initializer_list<uint64_t> more) {
  key.insert(key.end(), more);
  return key;
}

struct PrefixTreeTest : testing::Test, WrittenCache {
  PrefixTreeTest() : WrittenCache(kWindow, {64, 64, true}) {}
  /// A sequence that runs to the end of `key`, is inserted at `insertAt` if given and at the end, and closed.
  void run(PrefixTree &tree, const Key &key, uint32_t insertAt = 0) {
    const SeqId seq = tree.open(key).seq;
    if (insertAt) {
      ASSERT_TRUE(extend(seq, key, insertAt).ok());
      ASSERT_TRUE(tree.insert(key, seq).ok());
    }
    ASSERT_TRUE(extend(seq, key, uint32_t(key.size())).ok());
    ASSERT_TRUE(tree.insert(key, seq).ok());
    EXPECT_EQ(checkSequence(seq, key), "");
    ASSERT_TRUE(cache->close(seq).ok());
  }
  uint32_t hit(PrefixTree &tree, const Key &key) {
    const auto opened = tree.open(key);
    EXPECT_EQ(checkSequence(opened.seq, key), "");
    EXPECT_EQ(*cache->length(opened.seq), opened.tokens);
    EXPECT_TRUE(cache->close(opened.seq).ok());
    return opened.tokens;
  }
};

TEST_F(PrefixTreeTest, AHitNeverCoversTheLastPosition) {
  PrefixTree tree(*cache, kNoCap);
  run(tree, count(16));
  EXPECT_EQ(hit(tree, count(16)), 12u);
  EXPECT_EQ(hit(tree, count(17)), 16u);
  EXPECT_EQ(hit(tree, count(1)), 0u);
  EXPECT_EQ(hit(tree, {}), 0u);
}

TEST_F(PrefixTreeTest, AHitStartsAtOnePage) {
  PrefixTree tree(*cache, kNoCap);
  run(tree, count(6));
  EXPECT_EQ(hit(tree, count(4)), 0u);
  EXPECT_EQ(hit(tree, count(5)), 4u);
  EXPECT_EQ(hit(tree, Key{1, 2, 3, 9, 5, 6}), 0u) << "half a page is none";
}

TEST_F(PrefixTreeTest, BoundariesAreTheLastTwoWholePagesAndWhatWasInserted) {
  PrefixTree tree(*cache, kNoCap);
  run(tree, count(42), 18);
  // At 42 positions pages are whole up to 40 and those before position 29 were let go (36 - 8 + 1).
  EXPECT_EQ(hit(tree, count(41)), 40u);
  EXPECT_EQ(hit(tree, count(40)), 36u);
  EXPECT_EQ(hit(tree, count(36)), 16u); // inserted at 18
  EXPECT_EQ(hit(tree, count(16)), 12u);
  EXPECT_EQ(hit(tree, count(12)), 0u) << "page 0, which a hit of 8 positions needs, was let go before 18";
}

TEST_F(PrefixTreeTest, ABranchIsToldAndBecomesAHitWhenInserted) {
  PrefixTree tree(*cache, kNoCap);
  run(tree, count(20) + std::initializer_list<uint64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110,
                                                        111, 112});
  const Key second = count(20) + std::initializer_list<uint64_t>{200, 201, 202, 203, 204, 205, 206, 207, 208};
  const auto opened = tree.open(second);
  EXPECT_EQ(opened.tokens, 0u); // the window before 20 is gone
  EXPECT_EQ(opened.branch, 20u);
  ASSERT_TRUE(extend(opened.seq, second, opened.branch).ok());
  ASSERT_TRUE(tree.insert(second, opened.seq).ok());
  ASSERT_TRUE(cache->close(opened.seq).ok());
  EXPECT_EQ(hit(tree, count(20) + std::initializer_list<uint64_t>{300}), 20u);
}

TEST_F(PrefixTreeTest, SequencesThatBeginAlikeShareTheirPages) {
  PrefixTree tree(*cache, kNoCap);
  const Key a = count(10), b = count(9) + std::initializer_list<uint64_t>{77, 78, 79};
  const SeqId first = tree.open(a).seq, second = tree.open(b).seq; // neither knows of the other
  ASSERT_TRUE(extend(first, a, 10).ok());
  ASSERT_TRUE(extend(second, b, 12).ok());
  EXPECT_EQ(used(PageClass::kGlobal), 6u);
  ASSERT_TRUE(tree.insert(a, first).ok());
  ASSERT_TRUE(tree.insert(b, second).ok());
  EXPECT_EQ(used(PageClass::kGlobal), 4u) << "the second goes on with the tree's pages";
  EXPECT_EQ(used(PageClass::kSliding), 4u);
  EXPECT_EQ(tree.stats().pages, (PageCounts{3, 3}));
  EXPECT_EQ(checkSequence(first, a), "");
  EXPECT_EQ(checkSequence(second, b), "");
  const auto third = tree.open(a);
  EXPECT_EQ(third.tokens, 8u);
  EXPECT_EQ(used(PageClass::kGlobal), 4u);
  for (SeqId seq : {first, second, third.seq})
    ASSERT_TRUE(cache->close(seq).ok());
}

TEST_F(PrefixTreeTest, WhatASequenceDoesLaterLeavesTheTreeAlone) {
  PrefixTree tree(*cache, kNoCap);
  const Key key = count(14);
  const SeqId seq = tree.open(key).seq;
  ASSERT_TRUE(extend(seq, key, 14).ok());
  ASSERT_TRUE(tree.insert(key, seq).ok());
  ASSERT_TRUE(cache->truncate(seq, 10).ok());
  const Key other = count(10) + std::initializer_list<uint64_t>{50, 51, 52, 53};
  ASSERT_TRUE(extend(seq, other, 14).ok()); // goes on in the middle of page 2
  EXPECT_EQ(checkSequence(seq, other), "");
  ASSERT_TRUE(cache->close(seq).ok());
  EXPECT_EQ(hit(tree, key), 12u); // checks contents
}

TEST_F(PrefixTreeTest, DestructionGivesEveryPageBackHoweverDeepTheTreeIs) {
  WrittenCache deep(kWindow, {50000, 50000});
  {
    PrefixTree tree(*deep.cache, kNoCap);
    const Key key = count(4 * 40000);
    const SeqId seq = tree.open(key).seq;
    ASSERT_TRUE(deep.cache->reserve(seq, uint32_t(key.size())).ok());
    ASSERT_TRUE(deep.cache->advance(seq, uint32_t(key.size())).ok());
    ASSERT_TRUE(tree.insert(key, seq).ok());
    ASSERT_TRUE(deep.cache->close(seq).ok());
    EXPECT_EQ(tree.stats().pages.global, 40000u);
    EXPECT_EQ(deep.cache->pool(PageClass::kGlobal).idle(), 40000u);
  }
  EXPECT_EQ(deep.used(PageClass::kGlobal) + deep.used(PageClass::kSliding), 0u);
}

TEST_F(PrefixTreeTest, TheCapIsKeptByEvictingWhatWasUsedLongestAgo) {
  const uint64_t cap = 4 * (kGlobalBytes + kSlidingBytes);
  PrefixTree tree(*cache, cap);
  const Key a{1, 1, 1, 1, 1, 1, 1, 1, 1}, b{2, 2, 2, 2, 2, 2, 2, 2, 2}, c{3, 3, 3, 3, 3, 3, 3, 3, 3};
  run(tree, a);
  run(tree, b);
  EXPECT_EQ(tree.stats().bytes, cap);
  EXPECT_EQ(hit(tree, a), 8u); // now b is the oldest
  run(tree, c);
  EXPECT_LE(tree.stats().bytes, cap);
  EXPECT_EQ(hit(tree, a), 8u);
  EXPECT_EQ(hit(tree, b), 0u);
  EXPECT_EQ(hit(tree, c), 8u);
  EXPECT_EQ(tree.stats().evictedGlobal, 2u);
  EXPECT_EQ(tree.stats().evictedSliding, 2u);
}

TEST_F(PrefixTreeTest, ASequenceThatExceedsTheCapAloneIsNotTakenAndEvictsNothing) {
  PrefixTree tree(*cache, 2 * (kGlobalBytes + kSlidingBytes));
  run(tree, count(8));
  run(tree, Key{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_EQ(tree.stats().refusals, 1u);
  EXPECT_EQ(tree.stats().evictedGlobal + tree.stats().evictedSliding, 0u);
  EXPECT_EQ(hit(tree, count(9)), 8u);
  PrefixTree none(*cache, 0);
  run(none, count(8));
  EXPECT_EQ(none.stats().bytes, 0u);
}

TEST_F(PrefixTreeTest, AGrowingConversationLetsGoOfItsOldWindowsFirst) {
  // Room for ten positions' pages and two windows.
  PrefixTree tree(*cache, 10 * kGlobalBytes + 6 * kSlidingBytes);
  for (uint32_t length = 9; length <= 40; length += 3) {
    run(tree, count(length));
    EXPECT_EQ(hit(tree, count(length + 1)), length / 4 * 4);
  }
  EXPECT_EQ(tree.stats().evictedGlobal, 0u);
  EXPECT_EQ(tree.stats().refusals, 0u);
}

TEST_F(PrefixTreeTest, RoomIsMadeOnlyOfPagesThatNobodyElseHolds) {
  PrefixTree tree(*cache, kNoCap);
  const Key a{1, 1, 1, 1, 1, 1, 1, 1, 1}, b{2, 2, 2, 2, 2, 2, 2, 2, 2};
  run(tree, a);
  run(tree, b);
  const SeqId runs = tree.open(a).seq; // shares its two pages of each class
  run(tree, b);                        // and is the older
  EXPECT_TRUE(tree.makeRoom({60, 60})) << "that much is free";
  EXPECT_EQ(tree.stats().evictedGlobal, 0u);
  EXPECT_FALSE(tree.makeRoom({63, 0}));
  EXPECT_FALSE(tree.makeRoom({0, 63}));
  EXPECT_EQ(tree.stats().evictedGlobal + tree.stats().evictedSliding, 0u) << "in vain";
  EXPECT_TRUE(tree.makeRoom({62, 61}));
  EXPECT_EQ(cache->pool(PageClass::kSliding).free(), 62u);
  EXPECT_EQ(cache->pool(PageClass::kGlobal).free(), 61u);
  EXPECT_EQ(checkSequence(runs, a), "");
  EXPECT_EQ(hit(tree, a), 8u);
  ASSERT_TRUE(cache->close(runs).ok());
  EXPECT_TRUE(tree.makeRoom({64, 64}));
  EXPECT_EQ(tree.stats().bytes, 0u);
}

TEST_F(PrefixTreeTest, RoomIsMadeAlsoAboveAPageThatAForkInserted) {
  PrefixTree tree(*cache, kNoCap);
  const Key a = count(8), b = count(16);
  const SeqId first = tree.open(b).seq;
  ASSERT_TRUE(extend(first, b, 8).ok());
  const SeqId fork = *cache->fork(first);
  run(tree, a); // the tree has pages of its own for the first two
  ASSERT_TRUE(extend(first, b, 16).ok());
  const SeqId holder = *cache->fork(first);
  ASSERT_TRUE(tree.insert(b, first).ok()); // ... and the fork's below
  ASSERT_TRUE(cache->close(first).ok());
  ASSERT_TRUE(cache->close(fork).ok());
  ASSERT_EQ(cache->pool(PageClass::kGlobal).idle(), 2u);
  EXPECT_TRUE(tree.makeRoom({0, 60}));
  EXPECT_EQ(cache->pool(PageClass::kGlobal).free(), 60u);
  EXPECT_EQ(checkSequence(holder, b), "");
}

/// A conversation as an agent has it: it grows, thoughts are dropped from the history, answers are asked for
/// again and earlier messages changed. What came before the first token that differs is computed again for
/// one page at most, if sequences are inserted at the start of the last message, the end of the prompt and
/// the end of the answer.
TEST_F(PrefixTreeTest, ATurnComputesAtMostAPageOfWhatWasThereBefore) {
  WrittenCache large(kWindow, {20000, 20000});
  PrefixTree tree(*large.cache, kNoCap);
  std::mt19937 random(3);
  const auto text = [&] {
    Key out(3 + random() % 20);
    std::ranges::generate(out, [&] { return 10 + random() % 100000; });
    return out;
  };
  const auto append = [](Key &key, const Key &more) { key.insert(key.end(), more.begin(), more.end()); };
  const auto extendTo = [&](SeqId seq, uint32_t length) {
    const uint32_t have = *large.cache->length(seq);
    if (length <= have)
      return;
    ASSERT_TRUE(large.cache->reserve(seq, length - have).ok());
    ASSERT_TRUE(large.cache->advance(seq, length - have).ok());
  };
  std::vector<std::pair<Key, Key>> turns; // message and reply, each with its end
  std::vector<Key> earlier;
  uint64_t total = 0, again = 0;
  for (int request = 0; request < 120; ++request) {
    const uint32_t dice = turns.empty() ? 9 : random() % 10;
    if (dice == 0) // an earlier message is changed
      turns.resize(random() % turns.size());
    Key message = text();
    if (dice == 1) { // the last answer is asked for again
      message = turns.back().first;
      turns.pop_back();
    }
    Key key;
    for (const auto &[asked, reply] : turns) {
      append(key, asked);
      append(key, reply);
    }
    const auto start = uint32_t(key.size());
    append(key, message);
    append(key, {1, 2}); // the answer's turn begins
    const auto prompt = uint32_t(key.size());

    size_t known = 0; // positions that an earlier sequence began with
    for (const Key &other : earlier)
      known = std::max<size_t>(known, std::ranges::mismatch(key, other).in1 - key.begin());
    known = std::min<size_t>(known, prompt - 1);
    const auto opened = tree.open(key);
    EXPECT_LE(known - opened.tokens, kPage) << "request " << request << " of " << prompt;
    total += known;
    again += known - opened.tokens;

    Key reply = text();
    append(key, text()); // thoughts
    append(key, reply);
    for (const uint32_t stop : {start, prompt, uint32_t(key.size())}) {
      extendTo(opened.seq, stop);
      ASSERT_TRUE(tree.insert(key, opened.seq).ok());
    }
    ASSERT_TRUE(large.cache->close(opened.seq).ok());
    earlier.push_back(key);
    append(message, {1, 2});
    turns.emplace_back(message, reply);
  }
  EXPECT_GT(total, 20000u);
  EXPECT_LE(again, 120 * kPage);
}

TEST_F(PrefixTreeTest, WithoutSlidingLayersEveryPageIsABoundary) {
  auto global = KvCache::create(*device, {kPage, 1, {{PageClass::kGlobal, Element::kF32, 32}}}, {0, 16});
  ASSERT_TRUE(global.ok());
  PrefixTree tree(**global, kNoCap);
  const SeqId seq = tree.open(count(17)).seq;
  ASSERT_TRUE((*global)->reserve(seq, 17).ok());
  ASSERT_TRUE((*global)->advance(seq, 17).ok());
  ASSERT_TRUE(tree.insert(count(17), seq).ok());
  for (uint32_t length = 1; length < 20; ++length)
    EXPECT_EQ(tree.open(count(length)).tokens, std::min((length - 1) / 4 * 4, 16u));
}

TEST_F(PrefixTreeTest, CallsThatCannotBeAreErrors) {
  PrefixTree tree(*cache, kNoCap);
  const SeqId seq = tree.open(count(9)).seq;
  ASSERT_TRUE(extend(seq, count(9), 9).ok());
  EXPECT_EQ(tree.insert(count(8), seq).code(), Code::kInvalidArgument);
  EXPECT_EQ(tree.insert(count(8), SeqId(99)).code(), Code::kInvalidArgument);
  EXPECT_EQ(tree.stats().bytes, 0u);
}

TEST_F(PrefixTreeTest, StatisticsCountWhatHappened) {
  PrefixTree tree(*cache, kNoCap);
  run(tree, count(10));
  hit(tree, count(10));
  hit(tree, Key{7, 7, 7, 7, 7});
  const PrefixStats &stats = tree.stats();
  EXPECT_EQ(stats.lookups, 3u);
  EXPECT_EQ(stats.lookedUpTokens, 25u);
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.hitTokens, 8u);
  EXPECT_EQ(stats.pages, (PageCounts{2, 2}));
  EXPECT_EQ(stats.bytes, 2 * (kGlobalBytes + kSlidingBytes));
}

} // namespace
} // namespace g4::kv

#include "runtime/kv/PagePool.h"

#include <gtest/gtest.h>

#include <set>

namespace g4::kv {
namespace {

TEST(PagePoolTest, GivesEveryPageOnceAndThenNone) {
  PagePool pool(5);
  std::set<PageId> pages;
  for (int i = 0; i < 5; ++i)
    pages.insert(pool.acquire());
  EXPECT_EQ(pages, (std::set<PageId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.acquire(), kNoPage);
  EXPECT_EQ(pool.used(), 5u);
}

TEST(PagePoolTest, ReleaseReturnsEveryPage) {
  PagePool pool(3);
  for (int round = 0; round < 3; ++round) {
    const PageId a = pool.acquire(), b = pool.acquire(), c = pool.acquire();
    EXPECT_TRUE(pool.release(b));
    EXPECT_TRUE(pool.release(a));
    EXPECT_TRUE(pool.release(c));
    EXPECT_EQ(pool.free(), 3u);
  }
}

TEST(PagePoolTest, AWantedPageIsFreeOnlyAfterItsLastOwner) {
  PagePool pool(1);
  const PageId page = pool.acquire();
  pool.retain(page);
  EXPECT_EQ(pool.references(page), 2u);
  EXPECT_FALSE(pool.release(page));
  EXPECT_EQ(pool.acquire(), kNoPage);
  EXPECT_TRUE(pool.release(page));
  EXPECT_EQ(pool.acquire(), page);
}

TEST(PagePoolTest, PrefersTheLowestPage) {
  PagePool pool(4);
  for (int i = 0; i < 4; ++i)
    pool.acquire();
  pool.release(3);
  pool.release(1);
  EXPECT_EQ(pool.acquire(), 1);
  EXPECT_EQ(pool.acquire(), 3);
}

TEST(PagePoolTest, IdlePagesAreThoseThatOnlyACacheHolds) {
  PagePool pool(2);
  const PageId page = pool.acquire(); // a sequence's
  pool.acquire();
  pool.retain(page);
  pool.setCached(page, true);
  EXPECT_EQ(pool.idle(), 0u);
  pool.release(page); // the sequence ends
  EXPECT_EQ(pool.idle(), 1u);
  pool.retain(page); // another begins with it
  EXPECT_EQ(pool.idle(), 0u);
  pool.setCached(page, false);
  pool.release(page); // the cache gave it up
  EXPECT_EQ(pool.idle(), 0u);
  EXPECT_TRUE(pool.release(page));
  pool.acquire();
  EXPECT_EQ(pool.idle(), 0u) << "a page is nobody's cache when it is new";
}

} // namespace
} // namespace g4::kv

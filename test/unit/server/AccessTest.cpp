#include "runtime/server/Access.h"

#include <gtest/gtest.h>

namespace g4::server {
namespace {

TEST(AccessTest, Keys) {
  const Access open({}, {});
  EXPECT_TRUE(open.keyFits(""));
  const Access access({"first", "second key"}, {});
  for (const char *good : {"Bearer first", "bearer second key", "BEARER first"})
    EXPECT_TRUE(access.keyFits(good)) << good;
  for (const char *bad : {"", "first", "Bearer", "Bearer ", "Bearer firs", "Bearer firstfirst",
                          "Bearer first ", "Bearer FIRST", "Basic first", "Bearer  first"})
    EXPECT_FALSE(access.keyFits(bad)) << bad;
}

TEST(AccessTest, Origins) {
  const Access none({}, {}), one({}, {"https://chat.example"}), all({}, {"*"});
  EXPECT_FALSE(none.originFits("https://chat.example"));
  EXPECT_TRUE(one.originFits("https://chat.example"));
  EXPECT_FALSE(one.originFits("http://chat.example"));
  EXPECT_FALSE(one.originFits("https://chat.example.evil"));
  EXPECT_TRUE(all.originFits("null"));
  EXPECT_TRUE(Access::ownOrigin("http://localhost:8080", "localhost:8080"));
  EXPECT_FALSE(Access::ownOrigin("http://localhost:9090", "localhost:8080"));
  EXPECT_FALSE(Access::ownOrigin("null", "localhost:8080"));
  EXPECT_FALSE(Access::ownOrigin("http://", ""));
}

} // namespace
} // namespace g4::server

#include "compiler/weights/InOrder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace g4::weights {
namespace {

Status put(uint64_t i, std::vector<std::byte> &piece) {
  piece.resize(sizeof i);
  std::memcpy(piece.data(), &i, sizeof i);
  return {};
}

TEST(InOrder, PiecesAreUsedInOrderAndOnThisThread) {
  const auto here = std::this_thread::get_id();
  uint64_t next = 0;
  Status status = inOrder(
      1000,
      [](uint64_t i, std::vector<std::byte> &piece) {
        if (i % 7 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(200)); // others overtake this one
        return put(i, piece);
      },
      [&](uint64_t i, std::span<const std::byte> piece) -> Status {
        uint64_t made;
        std::memcpy(&made, piece.data(), sizeof made);
        EXPECT_EQ(i, next);
        EXPECT_EQ(made, next++);
        EXPECT_EQ(std::this_thread::get_id(), here);
        return {};
      });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(next, 1000u);
}

TEST(InOrder, TheFirstErrorCountsAndEndsIt) {
  uint64_t used = 0;
  std::atomic<uint64_t> begun = 0, ended = 0;
  Status status = inOrder(
      1000,
      [&](uint64_t i, std::vector<std::byte> &piece) -> Status {
        ++begun;
        if (i == 10) // found later than the next one's
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        Status made = i >= 10 ? invalidArgument("piece " + std::to_string(i)) : put(i, piece);
        ++ended;
        return made;
      },
      [&](uint64_t, std::span<const std::byte>) -> Status { return ++used, Status(); });
  EXPECT_EQ(status.message(), "piece 10");
  EXPECT_EQ(used, 10u);
  EXPECT_EQ(begun, ended);
  EXPECT_LT(begun, 1000u);
}

TEST(InOrder, AnErrorOfUseEndsIt) {
  std::atomic<uint64_t> begun = 0;
  Status status = inOrder(
      1000, [&](uint64_t i, std::vector<std::byte> &piece) { return ++begun, put(i, piece); },
      [](uint64_t i, std::span<const std::byte>) -> Status { return i == 5 ? resourceExhausted("full") : Status(); });
  EXPECT_EQ(status.message(), "full");
  EXPECT_LT(begun, 1000u);
}

TEST(InOrder, NothingIsNothing) {
  EXPECT_TRUE(inOrder(0, put, [](uint64_t, std::span<const std::byte>) { return internalError("used"); }).ok());
}

} // namespace
} // namespace g4::weights
